/**
 * Mutation testing: makes one small change at a time to code that decides something, and checks whether the tests
 * beside it notice.
 *
 *   node scripts/mutate.js [name…]           the files whose path contains one of the names, else all; results go to build/mutations/
 *   node scripts/mutate.js --again [name…]   only those mutants of them that survived last time, when nothing but tests was added since
 *   node scripts/mutate.js --write           writes the table and the survivors of docs/background/mutations.md from those results
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { mutantsOf } from "./mutation/mutants.js";
import { explanationOf, isCaught, writePage } from "./mutation/page.js";
import { openSession } from "./mutation/session.js";
import { listFiles } from "./setup/stamp.js";
import { parseSources } from "./syntax.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RESULTS = join(ROOT, "build/mutations");

/** Each file with the tests that judge its mutants. By name, because files move. */
const JUDGES = {
  "scheduler.ts": [
    "scheduler-steps.test.ts",
    "scheduler-displacement.test.ts",
    "scheduler.test.ts",
    "kv-manager.test.ts",
  ],
  "sampler-io.ts": ["sampler-io.test.ts", "sampling-fields.test.ts"],
  "speculator.ts": [
    "speculator-decisions.test.ts",
    "speculator-model.test.ts",
    "speculator-alternatives.test.ts",
    "speculator.test.ts",
  ],
  "kv-manager.ts": [
    "kv-rules.test.ts",
    "kv-collision.test.ts",
    "kv-manager.test.ts",
    "scheduler-steps.test.ts",
    "scheduler.test.ts",
    "cache-changes.test.ts",
  ],
  "block-pool.ts": ["block-pool.test.ts"],
  "prefix-index.ts": ["prefix-index.test.ts", "prefix-tree.test.ts", "cache-changes.test.ts"],
  "admission.ts": ["admission.test.ts"],
  "router.ts": ["router.test.ts", "router-leases.test.ts"],
  "breaker.ts": ["breaker.test.ts"],
  "exchange.ts": [
    "exchange.test.ts",
    "proxy-failures.test.ts",
    "proxy.test.ts",
    "response-state.test.ts",
    "isolation.test.ts",
  ],
};

/** The single file of that name. */
function find(name, paths) {
  const found = paths.filter((path) => basename(path) === name);
  if (found.length !== 1) throw new Error(`expected one file ${name}, found ${found.length}: ${found.join(", ")}`);
  return found[0];
}

const resultsPath = (name) => join(RESULTS, `${name}.json`);
const readResults = (name) => JSON.parse(readFileSync(resultsPath(name), "utf8"));

/** Stays the same in another run, as long as the code around the mutant does. */
const identityOf = ({ place, mutator, from, to, occurrence }) => [place, mutator, from, to, occurrence].join("\n");

/** @param known results of the previous run, whose caught mutants are not judged again */
async function mutate(name, path, file, paths, known) {
  const caught = new Map(known.filter(isCaught).map((mutant) => [identityOf(mutant), mutant]));
  const mutants = mutantsOf(file);
  const tests = JUDGES[name].map((test) => find(test, paths));
  const session = await openSession({ root: ROOT, file: resolve(ROOT, path), source: file.text, mutants, tests });
  const judged = [];
  try {
    for (const mutant of mutants) {
      const { outcome, by } = caught.get(identityOf(mutant)) ?? (await session.judge(mutant));
      const { start, end, id, ...kept } = mutant;
      judged.push({ ...kept, outcome, by });
    }
  } finally {
    await session.close();
  }
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(resultsPath(name), JSON.stringify({ name, path, tests, mutants: judged }, undefined, 1));
  return judged;
}

/** Lists the survivors without an explanation. */
function report(name, path, judged, seconds) {
  const escaped = judged.filter((mutant) => !isCaught(mutant));
  const unexplained = escaped.filter((mutant) => explanationOf(name, mutant) === undefined);
  const share = ((1 - escaped.length / judged.length) * 100).toFixed(1);
  const explained = `${escaped.length - unexplained.length} survivors explained`;
  process.stdout.write(`${path}: ${share} % of ${judged.length} caught, ${explained}, ${seconds.toFixed(0)} s\n`);
  for (const { line, place, mutator, from, to, outcome } of unexplained) {
    const change = `${from} → ${to}`.replace(/\s+/g, " ");
    process.stdout.write(`  ${path}:${line} ${place}: ${mutator}: ${change} (${outcome})\n`);
  }
}

async function main(names, isAgain) {
  const paths = listFiles(ROOT, "src", (path) => path.endsWith(".ts"));
  const chosen = Object.keys(JUDGES)
    .map((name) => [name, find(name, paths)])
    .filter(([, path]) => names.length === 0 || names.some((name) => path.includes(name)));
  const sources = parseSources(ROOT);
  for (const [name, path] of chosen) {
    const startMs = performance.now();
    const judged = await mutate(name, path, sources.get(path), paths, isAgain ? readResults(name).mutants : []);
    report(name, path, judged, (performance.now() - startMs) / 1000);
  }
}

const [option, ...names] = process.argv.slice(2);
if (option === "--write") {
  writePage(join(ROOT, "docs/background/mutations.md"), Object.keys(JUDGES).map(readResults));
} else if (option === "--again") await main(names, true);
else await main(process.argv.slice(2), false);
