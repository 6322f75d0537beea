/**
 * Limits the size of files and of the whole: a file above 450 statements needs a reason in its header (`size: reason`),
 * 550 is the maximum except for generated files, and src/ with native/ stays below a budget that only a deliberate
 * change raises. Files of more than two megabytes may only be in models/: Git keeps every version of them for ever.
 *
 *   node scripts/size-budget.js [root]
 */
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { SyntaxKind } from "typescript/unstable/ast";
import { isBlock, isStatement } from "typescript/unstable/ast/is";
import { listFiles } from "./setup/stamp.js";
import { parseSources } from "./syntax.js";

const STATEMENTS_WITH_REASON = 450;
const STATEMENTS_AT_MOST = 550;
const HEADER_LINES = 15;

/** Budget of product code: src/ and native/ without their tests and the files that only serve tests (`test-*.ts`). */
const TOTAL_BUDGET = 141_600;

const LARGEST_FILE = 2 * 2 ** 20;

const FOLDERS = ["bin", "scripts", "src", "native", "models", "test", "assets"];
const isOtherCode = (path) => /\.(cc|h|hpp|py|html|css)$/.test(path) && !/\/(\.venv|node_modules)\//.test(path);
const isProduct = (path) =>
  /^(src|native)\//.test(path) && !/\.test\.ts$|\/test-[^/]*\.ts$|^native\/cpu\/test\//.test(path);

const MEMBERS = new Set([
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
  SyntaxKind.PropertySignature,
  SyntaxKind.MethodSignature,
  SyntaxKind.CallSignature,
  SyntaxKind.ConstructSignature,
  SyntaxKind.IndexSignature,
  SyntaxKind.EnumMember,
  SyntaxKind.PropertyAssignment,
  SyntaxKind.ShorthandPropertyAssignment,
  SyntaxKind.SpreadAssignment,
]);

/** Counts statements, and members of classes, types and object literals: a number independent of line breaks. */
function statementsOf(file) {
  let count = 0;
  const visit = (node) => {
    if (MEMBERS.has(node.kind) || (isStatement(node) && !isBlock(node))) count++;
    node.forEachChild(visit);
  };
  file.forEachChild(visit);
  return count;
}

const CPP_COMMENTS_AND_STRINGS = /\/\*[\s\S]*?\*\/|\/\/.*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g;

/** Estimates C++ statements, each of which ends with a semicolon or opens a brace; counts lines of other languages. */
function estimatedStatements(path, text) {
  if (!/\.(cc|h|hpp)$/.test(path)) return text.split("\n").filter((line) => line.trim() !== "").length;
  return text.replace(CPP_COMMENTS_AND_STRINGS, "").match(/[;{]/g)?.length ?? 0;
}

/** @returns {{ path: string, text: string, statements: number }[]} */
function measuredFiles(root) {
  const parsed = [...parseSources(root)].map(([path, file]) => {
    return { path, text: file.text, statements: statementsOf(file) };
  });
  const others = FOLDERS.flatMap((folder) => listFiles(root, folder, isOtherCode)).map((path) => {
    const text = readFileSync(join(root, path), "utf8");
    return { path, text, statements: estimatedStatements(path, text) };
  });
  return [...parsed, ...others];
}

/** Files that a script writes; people read the script's table instead. */
const IS_WRITTEN = /^\/\/ Written by scripts\//;

/** @returns {{ problems: string[], total: number }} */
export function checkSizes(root) {
  const problems = [];
  let total = 0;
  for (const { path, text, statements } of measuredFiles(root)) {
    if (isProduct(path)) total += statements;
    const header = text.split("\n", HEADER_LINES);
    const hasReason = header.some((line) => /\bsize: \S/.test(line));
    if (statements > STATEMENTS_AT_MOST && !IS_WRITTEN.test(text)) {
      problems.push(`${path}: expected at most ${STATEMENTS_AT_MOST} statements, got ${statements}`);
    } else if (statements > STATEMENTS_WITH_REASON && !hasReason) {
      problems.push(
        `${path}: ${statements} statements; over ${STATEMENTS_WITH_REASON} the header needs a line "size: why"`,
      );
    }
  }
  if (total > TOTAL_BUDGET) {
    problems.push(`src and native: expected at most ${TOTAL_BUDGET} statements, got ${total}`);
  }
  return { problems, total };
}

/** @returns {string[]} problems with the sizes of the files that Git tracks */
export function checkTrackedFiles(root) {
  const { stdout } = spawnSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" });
  return stdout.split("\0").flatMap((path) => {
    const size = statSync(join(root, path), { throwIfNoEntry: false })?.size ?? 0;
    if (path === "" || path.startsWith("models/") || size <= LARGEST_FILE) return [];
    return [`${path}: expected at most ${LARGEST_FILE} bytes outside models/, got ${size}`];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
  const { problems, total } = checkSizes(root);
  problems.push(...checkTrackedFiles(root));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(`size: ${total} statements of ${TOTAL_BUDGET} in src and native\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
