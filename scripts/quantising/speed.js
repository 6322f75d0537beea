/**
 * Speed and memory of a model's copies beside its 16-bit original, by `millrace bench engine` in rounds over all types.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isFolderMethod } from "../../dist/src/compress/folder-formats.js";
import { METHODS } from "../../dist/src/compress/storage.js";
import { bytesIn } from "../../dist/src/convert/convert.js";
import { openModel } from "../../dist/src/model/open-model.js";
import { millrace } from "./millrace.js";

/** The model itself, with which all copies are compared. */
export const ORIGINAL = "F16";
const BFLOAT16 = "BF16";
export const USUAL_TYPES = [ORIGINAL, BFLOAT16, "Q8_0", "INT8", "FP8", "INT4_128", "Q4_0", "Q4_K_M"];
export const isType = (name) => [ORIGINAL, BFLOAT16, ...METHODS].includes(name);

/** Concurrent sequences: for prefill and decoding alone, and for decoding together. */
const BATCH = 16;
/** Prompts of the sequences that decode together; short, since their prefill is not measured. */
const SHORT_PROMPT = 16;
/** Tokens that sequences may decode while others start. */
const SLACK = 128;
const POLL_MS = 100;

/**
 * The path of a copy, made if it is missing. It is not calibrated: random weights have no texts, and speed does not
 * depend on values.
 */
async function copyOf(type, { model, work, threads }, tell, signal) {
  if (type === ORIGINAL) return model;
  const out = join(work, isFolderMethod(type) ? type : `${type}.gguf`);
  if (existsSync(out)) return out;
  tell(`${type}: made`);
  if (type === BFLOAT16) await millrace(["convert", "--model", model, "--dtype", "bfloat16", "--out", out], { signal });
  else {
    const how = ["--method", type, "--out", out, "--threads", String(threads)];
    await millrace(["quantize", "--model", model, ...how], { signal });
  }
  return out;
}

/**
 * Runs `millrace bench engine`.
 * @returns its result for one batch size, and its peak resident memory (on Linux)
 */
async function bench(model, { threads, prefillTokens, genTokens }, { batch, promptTokens }, signal) {
  const shape = ["--batch", batch, "--prompt-tokens", promptTokens, "--gen-tokens", genTokens, "--repetitions", 1];
  const limits = ["--threads", threads, "--max-num-seqs", BATCH, "--max-model-len", prefillTokens + genTokens + SLACK];
  // A prompt is one step, and so are the prompts that decode together.
  limits.push("--max-num-batched-tokens", Math.max(prefillTokens, BATCH * SHORT_PROMPT));
  let peakBytes;
  let timer;
  const onProcess = ({ pid }) => {
    timer = setInterval(() => {
      peakBytes = peakBytesOf(pid) ?? peakBytes;
    }, POLL_MS);
  };
  try {
    const args = ["bench", "engine", "--model", model, ...shape, ...limits, "--json"].map(String);
    const { results, engine } = await millrace(args, { signal, onProcess });
    return { ...results[0], engine, peakBytes };
  } finally {
    clearInterval(timer);
  }
}

function peakBytesOf(pid) {
  try {
    const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return kib === undefined ? undefined : 1024 * Number(kib);
  } catch {
    return undefined; // The process has ended, or the system has no such file.
  }
}

/**
 * @param settings model, types, rounds, threads, prefillTokens, genTokens; `work`, a folder
 * @param results gets a row for each type, with its rounds; types that have a row are skipped
 */
export async function measureSpeed(settings, results, save, tell, signal) {
  const { types, rounds, prefillTokens, model } = settings;
  const { weightType } = openModel(model).summary;
  if (weightType !== ORIGINAL) throw new Error(`expected a model in ${ORIGINAL}, got ${weightType} in ${model}`);
  for (const type of types) {
    results.rows[type] ??= { rounds: [] };
    const row = results.rows[type];
    if (row.rounds.length >= rounds) continue;
    const path = await copyOf(type, settings, tell, signal);
    // The first start packs the weights, which later timed starts reuse.
    tell(`${type}: packed`);
    const { engine } = await bench(path, { ...settings, genTokens: 2 }, { batch: 1, promptTokens: 8 }, signal);
    Object.assign(row, { numBytes: bytesIn(path), weightBytes: engine.weightBytes, isa: engine.isa });
    save();
  }
  for (let round = 0; round < rounds; round++) {
    // Each round begins with another type, so that no type always follows the same one.
    for (const type of types.map((_, i) => types[(i + round) % types.length])) {
      const row = results.rows[type];
      if (row.rounds.length > round) continue;
      const path = await copyOf(type, settings, tell, signal);
      const alone = await bench(path, settings, { batch: 1, promptTokens: prefillTokens }, signal);
      const together = await bench(path, settings, { batch: BATCH, promptTokens: SHORT_PROMPT }, signal);
      row.rounds.push({
        prefill: alone.prefillTokensPerS,
        decode1: alone.decodeTokensPerS,
        decode16: together.decodeTokensPerS,
        peakBytes: together.peakBytes,
      });
      const { prefill, decode1, decode16 } = row.rounds.at(-1);
      const speeds = [prefill, decode1, decode16].map((speed) => speed.toFixed(1)).join(", ");
      tell(`round ${round + 1} of ${rounds}, ${type}: ${speeds} tokens/s`);
      save();
    }
  }
}
