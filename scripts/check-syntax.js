/**
 * Rules about code that neither the formatter nor the compiler has.
 *
 *   node scripts/check-syntax.js [root]
 */
import { fileURLToPath } from "node:url";
import { SyntaxKind } from "typescript/unstable/ast";
import {
  isArrayLiteralExpression,
  isObjectLiteralExpression,
  isSpreadAssignment,
  isSpreadElement,
} from "typescript/unstable/ast/is";
import { parseSources, placeOf } from "./syntax.js";
import { unusedExports } from "./unused-exports.js";

const WRAPPERS = [SyntaxKind.ParenthesizedExpression, SyntaxKind.AsExpression, SyntaxKind.SatisfiesExpression];

/** The expression within parentheses and type assertions. */
function bare(expression) {
  return WRAPPERS.includes(expression.kind) ? bare(expression.expression) : expression;
}

/** A spread literal packs fields into lines as the formatter would not, and hides misspelt fields from the compiler. */
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

/** @returns lines "file:line: what is wrong" */
export function checkSyntax(root) {
  const sources = parseSources(root);
  return [...spreadLiterals(sources), ...unusedExports(sources)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = checkSyntax(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(
    problems.length === 0 ? "syntax: no spread literals, no unused exports\n" : `syntax: ${problems.length} problems\n`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
}
