/**
 * `npm run duplication`: runs jscpd with the settings of .jscpd.json and compares its clones with
 * docs/background/duplication.md. Fails on a clone without a reason on that page, and on a reason without a clone. Run
 * it by hand: npx fetches jscpd, which is not a dependency.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
/** The latest version with a published program for Linux. */
const JSCPD = "jscpd@5.3.3";
const PAGE = "docs/background/duplication.md";

const { status, error } = spawnSync("npx", ["--yes", JSCPD, "--config", ".jscpd.json"], {
  cwd: root,
  stdio: ["ignore", "ignore", "inherit"],
});
if (error !== undefined || status !== 0) throw error ?? new Error(`expected jscpd to end with 0, got ${status}`);

const pairOf = (a, b) => [a, b].sort().join(" ~ ");
const report = JSON.parse(readFileSync(join(root, "build/duplication/jscpd-report.json"), "utf8"));
const pathOf = ({ name }) => (name.startsWith("/") ? relative(root, name) : name);
const clones = new Map(
  report.duplicates.map(({ firstFile, secondFile, lines }) => {
    const [a, b] = [pathOf(firstFile), pathOf(secondFile)];
    return [pairOf(a, b), `${a}:${firstFile.start} ~ ${b}:${secondFile.start}, ${lines} lines`];
  }),
);
const rows = readFileSync(join(root, PAGE), "utf8").matchAll(/^\| `([^`]+)` \| `([^`]+)` \| \S.*\|$/gm);
const explained = new Set([...rows].map(([, a, b]) => pairOf(a, b)));

const problems = [
  ...[...clones].filter(([pair]) => !explained.has(pair)).map(([, where]) => `${where}: no reason in ${PAGE}`),
  ...[...explained].filter((pair) => !clones.has(pair)).map((pair) => `${PAGE}: ${pair} is no clone any more`),
];
for (const problem of problems) process.stderr.write(`${problem}\n`);
const { duplicatedLines, lines } = report.statistics.total;
process.stdout.write(`duplication: ${clones.size} pairs, ${duplicatedLines} of ${lines} lines\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
