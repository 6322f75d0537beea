/**
 * Plants bottlenecks in servers on this machine by their flags and their load, and prints the findings of `millrace
 * tune` as a Markdown table. Exits with 1 if fewer than nine in ten of the measured cases are named rightly. Servers
 * use one core fewer than the machine has.
 *
 *   node scripts/bench-tune-cases.js [--model FILE] [--only NAME,NAME] [--json FILE]
 *
 * A case that the machine disturbed is "not measured": run it again on a quiet machine.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: { model: { type: "string" }, only: { type: "string" }, json: { type: "string" } },
});
const root = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "millrace-tune-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

function promptsFile(name, lines) {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => JSON.stringify(line)).join("\n"));
  return path;
}

const numbered = (count, of) => Array.from({ length: count }, (_, index) => of(index));
const RULES = numbered(24, (index) => `Rule ${index} of the house says what nobody may do in room ${index}.`).join(" ");
const shared = promptsFile(
  "shared.jsonl",
  numbered(48, (index) => ({ prompt: `${RULES} Question ${index}: what now?`, max_tokens: 16 })),
);
const dated = promptsFile(
  "dated.jsonl",
  numbered(48, (index) => ({ prompt: `It is ${index} minutes past noon. ${RULES} What now?`, max_tokens: 16 })),
);
const mixed = promptsFile(
  "mixed.jsonl",
  numbered(48, (index) => ({ input_length: index % 4 === 0 ? 900 : 16, output_length: index % 4 === 0 ? 4 : 96 })),
);

/** Bottleneck, planted fault, server flags, and tuner flags. */
const CASES = [
  [
    "kv memory",
    "KV memory for two of eight clients",
    "--kv-cache-memory-bytes 2MiB --max-model-len 256",
    ["--shape", "96/64", "--requests", "48"],
  ],
  ["seats", "one seat for eight clients", "--max-num-seqs 1", ["--shape", "96/32", "--requests", "48"]],
  [
    "prefill",
    "prompts of 900 tokens, answers of 8",
    "",
    ["--shape", "900/8", "--requests", "32", "--concurrency", "4"],
  ],
  ["bandwidth", "one client, short prompts", "", ["--shape", "8/192", "--requests", "8", "--concurrency", "1"]],
  [
    "interference",
    "whole prompts of 900 tokens beside streams",
    "--max-num-batched-tokens 1024",
    ["--prompts", mixed, "--requests", "48", "--concurrency", "6", "--objective", "tpot"],
  ],
  [
    "host",
    "a model of half a million parameters",
    '--speculative-config {"method":"none"}',
    ["--shape", "16/96", "--requests", "64", "--concurrency", "16", "--model", join(root, "models/mill-draft.gguf")],
  ],
  ["client", "a request a second", "", ["--shape", "32/16", "--requests", "12", "--rate", "1"]],
  ["threads", "one thread on two cores", "--threads 1", ["--shape", "96/64", "--requests", "48", "--threads", "2"]],
  ["cache", "no cache for a shared prefix", "--no-enable-prefix-caching", ["--prompts", shared, "--requests", "48"]],
  ["cache", "the minute before a shared prefix", "", ["--prompts", dated, "--requests", "48"]],
  [
    "drafts",
    "sixteen drafted tokens a step from random text",
    '--speculative-config {"method":"ngram","num_speculative_tokens":16,"prompt_lookup_min":1,"adaptive":false}',
    ["--shape", "512/32", "--requests", "32", "--concurrency", "2"],
  ],
];

/** The error message in the JSON of the last line. */
function reasonIn(text) {
  try {
    return JSON.parse(text.trim().split("\n").at(-1)).error.message;
  } catch {
    return undefined;
  }
}

/** @returns the tuner's first finding, or the reason why there is none */
function nameOf(serverArgs, flags) {
  const model = args.model === undefined || flags.includes("--model") ? [] : ["--model", args.model];
  const fixed = ["tune", "--max-trials", "0", "--rounds", "1", "--json", "--out", join(folder, "tuning")];
  const words = [join(root, "bin/millrace.js"), ...fixed, ...model, "--server-args", serverArgs, ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, words, { maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      if (error === null) resolve(JSON.parse(stdout).first);
      else resolve({ bottleneck: "not measured", because: reasonIn(stderr) ?? `exit code ${error.code}` });
    });
  });
}

const only = args.only?.split(",");
const rows = [];
process.stdout.write("| planted by | bottleneck | named | evidence |\n| --- | --- | --- | --- |\n");
for (const [planted, by, serverArgs, flags] of CASES) {
  if (only !== undefined && !only.includes(planted)) continue;
  if (planted === "threads" && availableParallelism() < 2) continue;
  const { bottleneck, because } = await nameOf(serverArgs, flags);
  rows.push({ planted, by, named: bottleneck, because });
  process.stdout.write(`| ${by} | ${planted} | ${bottleneck} | ${because.replaceAll("|", "\\|")} |\n`);
}
const measured = rows.filter(({ named }) => named !== "not measured");
const right = measured.filter(({ named, planted }) => named === planted);
process.stdout.write(`\n${right.length} of ${measured.length} named rightly\n`);
if (args.json !== undefined) writeFileSync(args.json, `${JSON.stringify({ date: new Date().toISOString(), rows })}\n`);
process.exitCode = right.length >= 0.9 * measured.length ? 0 : 1;
