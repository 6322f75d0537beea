/**
 * Rules about code that neither the formatter nor the compiler has.
 *
 *   node scripts/check-syntax.js [root]
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SyntaxKind } from "typescript/unstable/ast";
import {
  isArrayLiteralExpression,
  isObjectLiteralExpression,
  isSpreadAssignment,
  isSpreadElement,
} from "typescript/unstable/ast/is";
import { listFiles } from "./setup/stamp.js";
import { parseSources, placeOf } from "./syntax.js";
import { unusedExports } from "./unused-exports.js";

const WRAPPERS = [SyntaxKind.ParenthesizedExpression, SyntaxKind.AsExpression, SyntaxKind.SatisfiesExpression];

/** The expression inside parentheses and type assertions. */
function bare(expression) {
  return WRAPPERS.includes(expression.kind) ? bare(expression.expression) : expression;
}

/**
 * Finds spread literals, which pack fields into lines against the formatter, and hide misspelt fields from the
 * compiler.
 */
function spreadLiterals(sources) {
  const problems = [];
  for (const [path, file] of sources) {
    const visit = (node) => {
      if (isSpreadAssignment(node) || isSpreadElement(node)) {
        const spread = bare(node.expression);
        if (isObjectLiteralExpression(spread) || isArrayLiteralExpression(spread)) {
          const place = placeOf(path, file, node.getStart(file));
          problems.push(`${place}: expected the items themselves, got a spread literal; write them without "..."`);
        }
      }
      node.forEachChild(visit);
    };
    visit(file);
  }
  return problems;
}

const COLUMNS = 120;
/** Prose comments on their own lines; tables, code and continued list items are indented by more than one blank. */
const PROSE = /^\s*(?:\/\/|\/\*\*?|\*)(?: \S|\S)/;

/** The formatter wraps code, but not comments. A single long word may exceed the width. */
function wideComments(root, paths) {
  return paths.flatMap((path) =>
    readFileSync(join(root, path), "utf8")
      .split("\n")
      .flatMap((line, i) => {
        const length = [...line].length;
        if (length <= COLUMNS || !PROSE.test(line) || !line.slice(0, COLUMNS).trim().slice(4).includes(" ")) return [];
        return [`${path}:${i + 1}: expected a comment of at most ${COLUMNS} columns, got ${length}; wrap it`];
      }),
  );
}

/** @returns lines of the form "file:line: problem" */
export function checkSyntax(root) {
  const sources = parseSources(root);
  const native = listFiles(root, "native", (path) => /\.(cc|h)$/.test(path));
  return [...spreadLiterals(sources), ...unusedExports(sources), ...wideComments(root, [...sources.keys(), ...native])];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = checkSyntax(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(
    problems.length === 0
      ? "syntax: no spread literals, no unused exports, no wide comments\n"
      : `syntax: ${problems.length} problems\n`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
}
