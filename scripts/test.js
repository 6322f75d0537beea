/**
 * `npm test`: sets itself up like `npm start`, runs the native test binary, then vitest, and ends with the list of
 * skipped tests and one line of totals.
 *
 *   node scripts/test.js                 all but the long tests and those of test/e2e, in less than ten minutes
 *   node scripts/test.js e2e             test/e2e
 *   node scripts/test.js long            the rest: *.long.test.ts, all cases of test/helpers/long.ts, test/exact for ten minutes, the native
 *                                        tests under sanitizers
 *   node scripts/test.js src/text -t bpe arguments go to vitest; with file names only those run, without the native binary
 *   node scripts/test.js exact           test/exact for MILLRACE_EXACT_MINUTES (10)
 *   node scripts/test.js boot            test/boot: a bare Debian, as root
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureReady } from "./build.js";
import { skippedLines } from "./setup/skipped.js";
import { startStage } from "./setup/stage-log.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Other sets of tests by name, with their arguments for vitest and their environment. */
const SETS = {
  e2e: { args: ["--project=e2e"], env: {} },
  long: { args: [".long.test.ts", "test/exact"], env: { MILLRACE_LONG: "1", MILLRACE_EXACT_MINUTES: "10" } },
  exact: { args: ["test/exact"], env: { MILLRACE_EXACT_MINUTES: "10" } },
  boot: { args: ["test/boot"], env: { MILLRACE_BOOT: "1" } },
};

/** Files of whose cases `npm test` runs only a part. */
function filesWithMoreCases() {
  return ["src", "test"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .map((name) => join(folder, name))
      .filter(
        (path) => path.endsWith(".test.ts") && readFileSync(join(root, path), "utf8").includes("helpers/long.js"),
      ),
  );
}

/** Runs a command and shows its output; returns its exit code (1 for a signal) and its stdout. */
function run(command, args, { env = {}, capture = false } = {}) {
  return new Promise((resolve) => {
    const stdio = ["inherit", capture ? "pipe" : "inherit", "inherit"];
    const child = spawn(command, args, { cwd: root, stdio, env: { ...process.env, ...env } });
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (text) => {
      process.stdout.write(text);
      output += text;
    });
    child.once("error", (error) => resolve({ exitCode: 1, output: error.message }));
    child.once("close", (code) => resolve({ exitCode: code ?? 1, output }));
  });
}

/** Whether the compiler can build and link with sanitizers, by compiling an empty program. */
async function hasSanitizers() {
  const probe = ["-x", "c++", "-", "-fsanitize=address,undefined", "-o", join(root, "build", "sanitizer-probe")];
  return new Promise((resolve) => {
    const child = spawn(process.env.CXX ?? "c++", probe, { stdio: ["pipe", "ignore", "ignore"] });
    child.once("error", () => resolve(false));
    child.once("close", (code) => resolve(code === 0));
    child.stdin.on("error", () => {});
    child.stdin.end("int main() { return 0; }\n");
  });
}

/** @returns counts of the native binary, whose last line is "N passed, N failed" */
async function runNativeTests({ areSanitized }) {
  const { buildNativeTests } = await import("./build-native.js");
  const sanitize = areSanitized && (await hasSanitizers());
  const stage = startStage("native tests");
  let binary;
  try {
    binary = await buildNativeTests({ sanitize, log: (line) => stage.update(line) });
  } catch (error) {
    stage.fail(error.message);
    return { numPassed: 0, numFailed: 1 };
  }
  const why = areSanitized ? ": this compiler has none" : ", which npm run test:long has";
  stage.done(sanitize ? "built with ASan and UBSan" : `built without sanitizers${why}`);
  const path = typeof binary === "string" ? binary : join(root, "build", sanitize ? "native-test-asan" : "native-test");
  const { exitCode, output } = await run(path, [], { capture: true });
  const counts = /(\d+) passed, (\d+) failed/.exec(output.split("\n").reverse().join("\n"));
  const numPassed = Number(counts?.[1] ?? 0);
  const numFailed = Number(counts?.[2] ?? 0);
  // A crash or a sanitizer's report ends the binary before or after its totals.
  return { numPassed, numFailed: exitCode !== 0 && numFailed === 0 ? 1 : numFailed };
}

async function runVitest(args, env, summaryPath) {
  rmSync(summaryPath, { force: true });
  const reporters = ["--reporter=default", `--reporter=${join(root, "scripts/setup/summary-reporter.js")}`];
  const { exitCode } = await run(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), "run", ...reporters, ...args],
    { env: { ...env, MILLRACE_TEST_SUMMARY: summaryPath } },
  );
  if (!existsSync(summaryPath)) return { numPassed: 0, numFailed: 1, skipped: [] };
  const summary = JSON.parse(readFileSync(summaryPath, "utf8"));
  return exitCode !== 0 && summary.numFailed === 0 ? { ...summary, numFailed: 1 } : summary;
}

function printTotals(numPassed, numFailed, skipped, summaryPath) {
  if (skipped.length > 0) process.stdout.write(`\nskipped (${relative(root, summaryPath)} names each):\n`);
  for (const line of skippedLines(skipped)) process.stdout.write(`${line}\n`);
  process.stdout.write(`\n${numPassed} passed, ${numFailed} failed, ${skipped.length} skipped\n`);
}

/** A file, a folder, or the beginning of a path selects tests; values of options (`-t name`) do not. */
const isTestPath = (argument) =>
  !argument.startsWith("-") && (argument.includes("/") || existsSync(join(root, argument)));

/** @returns arguments for vitest: tests of test/e2e only run by their own name or by a path */
function vitestArgs(name, args) {
  const set = SETS[name];
  if (set !== undefined) return [...set.args, ...(name === "long" ? filesWithMoreCases() : []), ...args.slice(1)];
  return args.some(isTestPath) ? args : ["--project=shared", "--project=alone", ...args];
}

async function main(args) {
  mkdirSync(join(root, "build"), { recursive: true });
  if (!(await ensureReady({ root }))) return 1;
  const [name] = args;
  const set = SETS[name];
  const areSanitized = name === "long";
  const runsNative = areSanitized || (set === undefined && !args.some(isTestPath));
  const native = runsNative ? await runNativeTests({ areSanitized }) : { numPassed: 0, numFailed: 0 };
  const summaryPath = join(root, "build", name === "e2e" ? "test-summary-e2e.json" : "test-summary.json");
  const vitest = await runVitest(vitestArgs(name, args), { ...set?.env, ...process.env }, summaryPath);
  const numFailed = native.numFailed + vitest.numFailed;
  printTotals(native.numPassed + vitest.numPassed, numFailed, vitest.skipped, summaryPath);
  return numFailed === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
