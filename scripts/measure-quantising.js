/**
 * Measures every method of `millrace quantize` on one model, and prints Markdown tables for
 * docs/background/benchmarks/quantising.md.
 *
 *   node scripts/measure-quantising.js --json FILE [--model models/mill-base.gguf] [--types Q4_K_M,INT8,…] [--nearest] [--ggml …/libggml-base.so]
 *       size, perplexity, KL divergence, tasks in pairs with the original; of --nearest and of GGML's encoders
 *       (llama.cpp's library; the same types and importance) perplexity and KL divergence
 *   node scripts/measure-quantising.js --speed --json FILE --model r1.1b.gguf [--types F16,Q8_0,…] [--rounds 3] [--quality FILE]
 *       tokens a second and memory by `millrace bench engine`, on a machine that does nothing else; beside them, quality of another run's FILE
 *
 * FILE keeps the results, from which the same command resumes. FILE.work holds copies and answers meanwhile.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";

const { values: flags } = parseArgs({
  options: {
    model: { type: "string", default: "models/mill-base.gguf" },
    json: { type: "string" },
    types: { type: "string" },
    nearest: { type: "boolean", default: false },
    ggml: { type: "string" },
    threads: { type: "string", default: "2" },
    /** Families of the corpus: for the texts, and for the questions. */
    families: {
      type: "string",
      default: "extract,passage,edit,change,arithmetic,code,story,summary,sort,chat,copy,identity,fact,list",
    },
    tasks: { type: "string" },
    count: { type: "string", default: "42" },
    "calibration-chats": { type: "string", default: "840" },
    "calibration-tokens": { type: "string", default: "32000" },
    "loss-chats": { type: "string", default: "56" },
    speed: { type: "boolean", default: false },
    rounds: { type: "string", default: "3" },
    quality: { type: "string" },
    "prefill-tokens": { type: "string", default: "256" },
    "gen-tokens": { type: "string", default: "64" },
  },
});
if (flags.json === undefined) {
  process.stderr.write("expected --json FILE, which keeps the results, got nothing\n");
  process.exit(2);
}
const work = `${flags.json}.work`;
mkdirSync(work, { recursive: true });
// Keeps packed weights of short-lived copies out of the user's cache. Set before any product code is loaded.
process.env.MILLRACE_CACHE = join(work, "cache");

const list = (text) => text.split(",").filter((part) => part !== "");
const [{ inOrder, isMethod, measureQuality }, { encodersTable, qualityTable, speedTable }, speed, info] =
  await Promise.all([
    import("./quantising/quality.js"),
    import("./quantising/tables.js"),
    import("./quantising/speed.js"),
    import("../dist/src/bench/results/machine.js"),
  ]);
const { METHODS } = await import("../dist/src/compress/storage.js");
const types = list(flags.types ?? (flags.speed ? speed.USUAL_TYPES : METHODS).join(","));
const unknown = types.find((name) => !(flags.speed ? speed.isType(name) : isMethod(name)));
if (unknown !== undefined) {
  process.stderr.write(
    `expected --types of ${METHODS.join(", ")}${flags.speed ? ", F16, BF16" : ""}, got ${unknown}\n`,
  );
  process.exit(2);
}

const [model, threads] = [basename(flags.model), Number(flags.threads)];
/** Common settings of a file's results. Predictions and answers do not depend on threads. */
const settings = flags.speed
  ? { model, threads, prefillTokens: Number(flags["prefill-tokens"]), genTokens: Number(flags["gen-tokens"]) }
  : {
      model,
      families: list(flags.families),
      tasks: list(flags.tasks ?? flags.families),
      count: Number(flags.count),
      calibrationChats: Number(flags["calibration-chats"]),
      calibrationTokens: Number(flags["calibration-tokens"]),
      lossChats: Number(flags["loss-chats"]),
    };
const about = { kind: flags.speed ? "speed" : "quality", settings };
const results = existsSync(flags.json) ? JSON.parse(readFileSync(flags.json, "utf8")) : { ...about, rows: {} };
if (JSON.stringify([results.kind, results.settings]) !== JSON.stringify([about.kind, settings])) {
  process.stderr.write(
    `expected results of the same settings in ${flags.json}, got ${JSON.stringify(results.settings)}\n`,
  );
  process.exit(2);
}
const quality = flags.quality === undefined ? undefined : JSON.parse(readFileSync(flags.quality, "utf8"));
const save = () => {
  const about = { machine: info.machineInfo(), versions: info.versions(), date: new Date().toISOString().slice(0, 10) };
  writeFileSync(`${flags.json}.partial`, `${JSON.stringify({ ...results, ...about }, rounded)}\n`);
  renameSync(`${flags.json}.partial`, flags.json);
};
/** Six digits exceed the precision of all these figures. */
const rounded = (_, value) =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
const tell = (text) => process.stderr.write(`${new Date().toTimeString().slice(0, 8)} ${text}\n`);

/** Ctrl-C stops between two measurements; the same command resumes. */
const stopping = new AbortController();
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => stopping.abort());
const run = {
  ...settings,
  threads,
  model: flags.model,
  work,
  types,
  nearest: flags.nearest,
  ggml: flags.ggml,
  rounds: Number(flags.rounds),
};
save();
try {
  if (flags.speed) await speed.measureSpeed(run, results, save, tell, stopping.signal);
  else await measureQuality(run, results, save, tell, stopping.signal);
  rmSync(work, { recursive: true });
} catch (thrown) {
  if (!stopping.signal.aborted) throw thrown;
}
if (flags.speed) process.stdout.write(speedTable(results, speed.ORIGINAL, quality));
else process.stdout.write(`${qualityTable(results, inOrder)}\n${encodersTable(results, inOrder)}`);
