/**
 * Makes copies of a model by `millrace quantize`, and measures their losses: over other texts beside GGML's encoders,
 * and in answers to tasks.
 */
import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chatAt, readMixture } from "../../dist/models/corpus/families.js";
import { readCalibration } from "../../dist/src/compress/calibration.js";
import { isFolderMethod } from "../../dist/src/compress/folder-formats.js";
import { readImportance } from "../../dist/src/compress/importance.js";
import { METHODS, quantisedStorage } from "../../dist/src/compress/storage.js";
import { convertModel } from "../../dist/src/convert/convert.js";
import { openModel } from "../../dist/src/model/open-model.js";
import { loadTextSide } from "../../dist/src/text/text-side.js";
import { ggmlEncoder } from "./ggml-encoder.js";
import { LossMeter, summaryOf, versus } from "./losses.js";
import { millrace } from "./millrace.js";

/** Prefix of types chosen by measured sensitivity, in a file of the size of the type after it. */
const MIXED = "MIXED_";
/** Seeds of chats that neither training nor `millrace eval` draws. */
const SEEDS = { calibration: 7, losses: 990_001 };
const MANY_TOKENS = 2 ** 30;

export const isMethod = (name) => METHODS.includes(name.startsWith(MIXED) ? name.slice(MIXED.length) : name);

/** In the order of the tables: each mixture beside the type of its size. */
export function inOrder(names) {
  const place = (name) => METHODS.indexOf(name.replace(MIXED, "")) + (name.startsWith(MIXED) ? 0.5 : 0);
  return [...names].sort((a, b) => place(a) - place(b));
}

/** Writes chats of the families in turn. */
function writeChats(path, families, seed, count) {
  const mixtures = families.map(readMixture);
  const lines = Array.from({ length: count }, (_, i) => {
    return `${JSON.stringify(chatAt(seed, Math.floor(i / families.length), mixtures[i % families.length]))}\n`;
  });
  writeFileSync(path, lines.join(""));
}

/**
 * @param settings of the run: model, families, tasks, count, calibrationChats, calibrationTokens, lossChats, threads,
 * types; `work`, a folder; `nearest`, whether methods are also measured so; `ggml`, a path or undefined
 * @param results gets `original`, `ggml` and `rows`; methods that have a row are left out
 * @param save called after each method
 */
export async function measureQuality(settings, results, save, tell, signal) {
  const { model, work, families, calibrationChats, calibrationTokens, lossChats, threads, ggml, types } = settings;
  const paths = {
    calibration: join(work, "calibration.jsonl"),
    losses: join(work, "losses.jsonl"),
    importance: join(work, "importance.gguf"),
    answers: join(work, "original.json"),
  };
  writeChats(paths.calibration, families, SEEDS.calibration, calibrationChats);
  writeChats(paths.losses, families, SEEDS.losses, lossChats);
  const run = (...args) => millrace([...args, "--threads", String(threads), "--json"], { signal });
  const calibrate = ["--calibrate", paths.calibration, "--calibration-tokens", String(calibrationTokens)];
  const quantize = async (out, ...args) => (await run("quantize", "--model", model, "--out", out, ...args)).chosen;
  const encoder = ggml === undefined ? undefined : ggmlEncoder(ggml);
  const questions = ["--tasks", settings.tasks.join(","), "--count", String(settings.count), "--max-tokens", "512"];

  if (!existsSync(paths.importance)) {
    const copy = join(work, "measured.gguf");
    await quantize(copy, "--method", "Q8_0", "--rounding", "nearest", ...calibrate, "--save-imatrix", paths.importance);
    rmSync(copy);
  }
  if (!existsSync(paths.answers)) {
    tell("the original answers");
    await run("eval", "--model", model, ...questions, "--out", paths.answers);
  }
  const windows = await windowsOf(paths.losses, model);
  const meter = await LossMeter.open(model, windows, threads);

  /** Makes a copy, measures it, and removes it. */
  const measured = async (name, make, more = async () => ({})) => {
    // Each copy has its own folder, because a file's card lies beside it.
    const place = join(work, "copy");
    rmSync(place, { recursive: true, force: true });
    mkdirSync(place);
    const copy = join(place, isFolderMethod(name) ? name : `${name}.gguf`);
    const made = await make(copy);
    const losses = await meter.of(copy);
    const rest = await more(copy);
    rmSync(place, { recursive: true });
    return { ...made, losses, ...rest };
  };
  const answersOf = async (copy) => {
    const { comparison } = await run("eval", "--model", copy, ...questions, "--baseline", paths.answers);
    return { tasks: comparison.tasks, overall: comparison.overall };
  };

  const sizeOf = (name) => {
    const row = results.rows[name];
    if (row === undefined)
      throw new Error(`expected ${name} among --types before ${MIXED}${name}, whose size it gives`);
    return row.numBytes;
  };
  const rowOf = async (name) => {
    const isChoice = name.startsWith(MIXED);
    const how = isChoice ? ["--max-size", String(sizeOf(name.slice(MIXED.length)))] : ["--method", name];
    const make = async (copy) => {
      const { numBytes, bitsPerWeight } = await quantize(copy, ...how, "--imatrix", paths.importance, ...calibrate);
      return { numBytes, bitsPerWeight };
    };
    tell(`${name}: made and asked`);
    const { losses, ...ours } = await measured(name, make, answersOf);
    const row = { ...ours, loss: summaryOf(losses) };
    if (isChoice) return row;
    let plain;
    if (settings.nearest) {
      tell(`${name}: rounded to the nearest`);
      plain = await measured(name, (copy) => quantize(copy, ...how, "--imatrix", paths.importance));
      row.nearest = summaryOf(plain.losses);
    }
    if (encoder === undefined || isFolderMethod(name)) return row;
    tell(`${name}: GGML's encoders`);
    const importance = readImportance(paths.importance);
    const type = (opened) => quantisedStorage(name, opened, { encoder, importance });
    const theirs = await measured(name, (out) => convertModel({ model, out, type }, undefined, undefined, signal));
    row.ggml = summaryOf(theirs.losses);
    row.versusGgml = {
      gptq: versus(losses, theirs.losses),
      ...(plain && { nearest: versus(plain.losses, theirs.losses) }),
    };
    return row;
  };

  try {
    results.original ??= originalOf(model);
    if (encoder !== undefined) results.ggml = encoder.version;
    for (const name of types) {
      if (results.rows[name] !== undefined) continue;
      results.rows[name] = await rowOf(name);
      save();
    }
  } finally {
    await meter.close();
  }
}

function originalOf(model) {
  const { weightBytes, weightType, numParameters } = openModel(model).summary;
  return {
    numBytes: statSync(model).size,
    bitsPerWeight: (8 * weightBytes) / numParameters,
    weightType,
    numParameters,
  };
}

/** All windows of a file of chats, as token ids. */
async function windowsOf(path, model) {
  const { tokenizer, chatTemplate, asyncTokenizer } = await loadTextSide(model);
  asyncTokenizer.end();
  const { contextLength } = openModel(model).config;
  const limits = { contextLength, maxTokens: MANY_TOKENS };
  const { windows, heldOut } = readCalibration(path, tokenizer, chatTemplate, limits);
  return [...windows, ...heldOut];
}
