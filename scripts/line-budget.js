/**
 * Keeps files and the whole readable: over 500 lines a file's header must say why (`size: reason`), 800 is the end, and src/ with
 * native/ together stay below a budget that only a deliberate change raises.
 *
 *   node scripts/line-budget.js [root]
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { listFiles } from "./setup/stamp.js";

const LINES_WITH_REASON = 500;
const LINES_AT_MOST = 800;
const HEADER_LINES = 15;

/** Product code: src/ and native/ without their tests. */
const TOTAL_BUDGET = 76_000;

const FOLDERS = ["bin", "scripts", "src", "native", "models", "test", "assets"];
const isCode = (path) => /\.(ts|js|mjs|cc|h|hpp|py|html|css)$/.test(path) && !/\/(\.venv|node_modules)\//.test(path);
const isProduct = (path) => /^(src|native)\//.test(path) && !/\.test\.ts$|^native\/test\//.test(path);

/** @returns {{ problems: string[], totalLines: number }} */
export function checkLines(root, totalBudget = TOTAL_BUDGET) {
  const problems = [];
  let totalLines = 0;
  for (const file of FOLDERS.flatMap((folder) => listFiles(root, folder, isCode))) {
    const lines = readFileSync(join(root, file), "utf8").trimEnd().split("\n");
    if (isProduct(file)) totalLines += lines.length;
    const hasReason = lines.slice(0, HEADER_LINES).some((line) => /\bsize: \S/.test(line));
    if (lines.length >= LINES_AT_MOST)
      problems.push(`${file}: expected fewer than ${LINES_AT_MOST} lines, got ${lines.length}`);
    else if (lines.length > LINES_WITH_REASON && !hasReason) {
      problems.push(`${file}: ${lines.length} lines; over ${LINES_WITH_REASON} the header needs a line "size: why"`);
    }
  }
  if (totalLines > totalBudget)
    problems.push(`src and native: expected at most ${totalBudget} lines, got ${totalLines}`);
  return { problems, totalLines };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { problems, totalLines } = checkLines(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(`lines: ${totalLines} of ${TOTAL_BUDGET} in src and native\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
