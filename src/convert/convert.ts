/**
 * Writes a model that the embedded engine can read in the other format, or in the same format with another number type.
 */
import { existsSync, linkSync, lstatSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { MillraceError } from "../core/errors.js";
import type { PlainType } from "../formats/files/plain-values.js";
import { type ServableModel, unservedVariant } from "../model/description/servable.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import { loadTextSide, type TextSide } from "../text/text-side.js";
import { PROBE } from "../text/tokenizer/probes.js";
import { writeFile } from "./gguf/write-file.js";
import { writeFolder } from "./hf/write-folder.js";
import { asWritten } from "./weights/delta-layers.js";
import { keptStorage } from "./weights/kept-nvfp4.js";
import {
  type CopyNote,
  type CopyProgress,
  type CopySource,
  type FolderStorage,
  plainStorage,
  type Storage,
} from "./weights/tensors.js";

/** Time between two checks for signals. */
const WORK_MS = 50;
/** Errors of file systems that have no hard links. */
const NO_LINKS: readonly (string | undefined)[] = ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"];

export interface ConvertOptions {
  /** A GGUF file or a Hugging Face folder. */
  readonly model: string;
  /** A path that ends in `.gguf`, or a folder that is empty or missing. */
  readonly out: string;
  /** Type of the matrices, or their storage; undefined: the types with the least loss (`keptStorage`). */
  readonly type: PlainType | ((model: OpenModel) => Storage | FolderStorage) | undefined;
  /** Returns the model with other weights that compute the same; absent: the weights are copied. */
  readonly change?: (model: OpenModel) => OpenModel;
}

export interface Converted {
  readonly path: string;
  readonly format: "gguf" | "hf";
  /** @example "Q4_K_M" */
  readonly type: string;
  readonly numBytes: number;
}

/** Error codes of a place that cannot be written to, or is full. */
const NO_PLACE: readonly (string | undefined)[] = [
  "ENOSPC",
  "EDQUOT",
  "EFBIG",
  "EROFS",
  "EACCES",
  "EPERM",
  "ENAMETOOLONG",
  // /proc returns this code, and so does a folder that is removed meanwhile.
  "ENOENT",
  "ENOTDIR",
];

/**
 * Writes the copy of a model; it gets its name only when it is complete.
 * @param onWritten called with the bytes of tensors written so far, and the total
 * @param onNote called with each difference between the copy and the model
 * @param signal ends the work with its reason, and removes what was written
 * @throws invalid_option for an existing `out`; architecture_unsupported and tokenizer_unsupported if the format cannot
 *   express the model
 */
export async function convertModel(
  { out: wantedOut, ...options }: ConvertOptions,
  onWritten: (numBytes: number, total: number) => void = () => {},
  onNote: (text: string) => void = () => {},
  signal?: AbortSignal,
): Promise<Converted> {
  const out = resolve(wantedOut);
  const isFile = isFileName(out);
  return writingTo(out, "nothing was left there", () =>
    withPlace(out, isFile, async (place) => {
      const copy = join(place, isFile ? "copy.gguf" : "copy");
      const type = await writeWholeCopy({ ...options, out: copy }, { onWritten, onNote }, signal);
      publishCopy(copy, out);
      return { path: out, format: isFile ? "gguf" : "hf", type, numBytes: bytesIn(out) };
    }),
  );
}

/** Opens a model in the form of a copy named `out`. @throws the errors of `openModel` */
export const openForCopy = (path: string, out: string): OpenModel => asWritten(openModel(path), isFileName(out));

export const isFileName = (out: string): boolean => out.endsWith(".gguf");

interface WholeCopyProgress extends Pick<CopyProgress, "onWritten" | "log"> {
  onNote(text: string): void;
}

/**
 * Writes a copy that tokenizes text like its model, under a temporary name.
 * @param progress a log in it lets a stopped copy continue
 * @returns the type's name @throws the errors of `convertModel`
 */
export async function writeWholeCopy(
  { model: path, out, type: wanted, change }: ConvertOptions,
  { onWritten, onNote, log }: WholeCopyProgress,
  signal?: AbortSignal,
): Promise<string> {
  const opened = openForCopy(path, out);
  refuseEncoder(opened.config);
  const model = change?.(opened) ?? opened;
  const text = await loadTextSide(path);
  try {
    const storage =
      typeof wanted === "function" ? wanted(model) : wanted === undefined ? keptStorage(model) : plainStorage(wanted);
    let hasOtherTokens = false;
    const note = (each: CopyNote) => {
      hasOtherTokens ||= each.isAboutTokens;
      onNote(each.text);
    };
    const progress = { onWritten, onNote: note, log };
    const pieces = writeCopy(out, isFileName(out), { path, model, text }, storage, progress);
    await workInPieces(pieces, signal, () => storage.preparation?.prepare());
    await expectSameText(text, out, hasOtherTokens);
    signal?.throwIfAborted();
    return storage.name;
  } finally {
    text.asyncTokenizer.end();
  }
}

/** Runs long work in pieces, and handles signals between them. @param between awaited after each piece */
export async function workInPieces(
  pieces: Iterable<void>,
  signal: AbortSignal | undefined,
  between: () => Promise<void> | undefined = () => undefined,
): Promise<void> {
  let heardMs = performance.now();
  for (const _ of pieces) {
    await between();
    if (performance.now() - heardMs < WORK_MS) continue;
    await setImmediate();
    signal?.throwIfAborted();
    heardMs = performance.now();
  }
}

/** @throws architecture_unsupported for a model that cannot be written in the other format */
function refuseEncoder({ isCausal, architecture, head }: ServableModel): void {
  const isCopied = isCausal && head === undefined;
  if (isCopied) return;
  const got = isCausal ? "one with layers behind its pooling" : `an encoder (${architecture})`;
  const message = `expected a model that generates text to convert, got ${got}`;
  throw new MillraceError("architecture_unsupported", message, { hint: "serve the file or folder as it is" });
}

/**
 * Runs `work` with a new folder beside `out`, and removes the folder afterwards. @throws invalid_option for an existing
 * `out`
 */
export async function withPlace<T>(out: string, isFile: boolean, work: (folder: string) => Promise<T>): Promise<T> {
  refuseExisting(out, isFile);
  const folder = mkdtempSync(`${out}.partial-`);
  const remove = () => rmSync(folder, { recursive: true, force: true });
  // A second signal ends the process immediately.
  process.once("exit", remove);
  try {
    return await work(folder);
  } finally {
    remove();
    process.off("exit", remove);
  }
}

/** @param left what remains after an error @throws invalid_option if `out` cannot be written or lacks room */
export async function writingTo<T>(out: string, left: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    if (thrown instanceof MillraceError || !NO_PLACE.includes(code)) throw thrown;
    throw new MillraceError("invalid_option", `expected to write to --out ${out}, got ${message}`, {
      hint: `Name a place that can be written and has room for the copy; ${left}.`,
      cause: thrown,
    });
  }
}

/**
 * Gives the copy, a file or a folder, its name. Never replaces a file or folder that another program has put there
 * meanwhile.
 */
export function publishCopy(copy: string, out: string): void {
  try {
    // Renaming replaces an existing file, but only an empty folder.
    if (statSync(copy).isFile()) linkOrRename(copy, out);
    else renameSync(copy, out);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "EEXIST" || code === "ENOTEMPTY" || code === "ENOTDIR") throw inTheWay(out);
    throw thrown;
  }
}

function linkOrRename(copy: string, out: string): void {
  try {
    linkSync(copy, out);
  } catch (thrown) {
    if (!NO_LINKS.includes((thrown as NodeJS.ErrnoException).code)) throw thrown;
    if (lstatSync(out, { throwIfNoEntry: false }) !== undefined) throw inTheWay(out);
    renameSync(copy, out);
  }
}

/** @param isNoted whether a note to the user says that some texts have other tokens */
async function expectSameText(original: TextSide, path: string, isNoted: boolean): Promise<void> {
  const copy = await loadTextSide(path);
  copy.asyncTokenizer.end();
  const facts = ({ tokenizer, readSampling }: TextSide) => ({
    tokens: isNoted ? [] : tokenizer.encode(PROBE, { addSpecial: true, parseSpecial: true }),
    start: tokenizer.addsBos ? tokenizer.bosId : undefined,
    end: tokenizer.addsEos ? tokenizer.eosId : undefined,
    stops: [...tokenizer.stopIds].sort((a, b) => a - b),
    sampling: readSampling(),
  });
  const difference = firstDifference(facts(original), facts(copy));
  if (difference === undefined) return;
  throw new MillraceError("tokenizer_unsupported", `expected a copy that reads text with ${difference}`, {
    hint: "The format cannot say how this model reads text. Take the model in that format from its makers.",
  });
}

/** @returns the first differing field with both values; undefined: all are equal */
function firstDifference<Facts extends object>(wanted: Facts, got: Facts): string | undefined {
  const keys = Object.keys(wanted) as (keyof Facts & string)[];
  const key = keys.find((each) => !isDeepStrictEqual(wanted[each], got[each]));
  const shown = (value: unknown) => String(JSON.stringify(value)).slice(0, 200);
  return key === undefined ? undefined : `${key} ${shown(wanted[key])}, got ${shown(got[key])}`;
}

/** Writes the copy, and reads it back as a check. @yields after each piece of a tensor */
export function* writeCopy(
  out: string,
  isFile: boolean,
  source: CopySource,
  storage: Storage | FolderStorage,
  progress: CopyProgress,
): Generator<void> {
  const { name } = storage;
  const refuse = (expected: string, got: string): never => {
    throw new MillraceError("invalid_option", `expected --out to ${expected} for ${name}, got ${got}`);
  };
  if (isFile) {
    if (!("typeOf" in storage)) return refuse("name a folder", "a .gguf file");
    yield* writeFile(out, source, storage, progress);
  } else {
    const { plain } = storage;
    if (plain === undefined) return refuse("end in .gguf", "a folder");
    yield* writeFolder(out, source, { ...storage, plain }, progress);
  }
  expectSame(source.model, openModel(out));
}

/** Checks the settings that decide a model's answers; between formats they may differ only in rounding. */
function expectSame(original: OpenModel, copy: OpenModel): void {
  const hasLongRope = original.tensors().has("rope_factors_long.weight");
  const settings = ({ layers, ropes, ...model }: ServableModel) => ({
    width: model.width,
    vocabSize: model.vocabSize,
    contextLength: model.contextLength,
    isTied: model.isTied,
    rmsEps: Math.fround(model.rmsEps),
    embeddingScale: Math.fround(model.embeddingScale),
    attentionScale: Math.fround(model.attentionScale),
    residualScale: Math.fround(model.residualScale),
    logitScale: Math.fround(model.logitScale),
    caps: [model.attentionCap, model.logitCap].map(Math.fround),
    queryScaling: model.queryScaling && { ...model.queryScaling, beta: Math.fround(model.queryScaling.beta) },
    parallel: model.parallel,
    activation: model.activation,
    pooling: model.pooling,
    routing: { ...model.routing, scale: Math.fround(model.routing.scale) },
    hasSinks: model.hasSinks,
    hasExpertBiases: model.hasExpertBiases,
    layers: layers.map(({ mixer, feedForward }) => ({ ...mixer, ...feedForward })),
    ropes: ropes.map((rope) => {
      const { dim, base, scaling, factor, attentionFactor, originalContextLength, betaFast, betaSlow } = rope;
      const isYarn = scaling === "yarn";
      return [
        dim,
        Math.fround(base),
        // A long rope is defined by its tensors of factors, whatever its type's name.
        scaling === "longrope" ? "none" : scaling,
        attentionFactor.toPrecision(5),
        ...(isYarn || scaling === "linear" ? [Math.fround(factor)] : []),
        ...(isYarn || hasLongRope ? [originalContextLength] : []),
        ...(isYarn ? [Math.fround(betaFast), Math.fround(betaSlow), rope.roundsYarnRange] : []),
      ];
    }),
  });
  const difference = firstDifference(settings(original.config), settings(copy.config));
  if (difference !== undefined) throw unservedVariant(`expected a format that can say ${difference}`);
}

function refuseExisting(out: string, isFile: boolean): void {
  const found = lstatSync(out, { throwIfNoEntry: false });
  if (found === undefined) {
    const parent = dirname(out);
    if (statSync(parent, { throwIfNoEntry: false })?.isDirectory() === true) return;
    throw new MillraceError("invalid_option", `expected --out in a folder that is there, got ${parent}`);
  }
  if (isFile || !found.isDirectory() || readdirSync(out).length > 0) throw inTheWay(out);
  // The copy is made beside `out`, and cannot be moved to another file system.
  if (found.dev !== statSync(dirname(out)).dev) {
    throw new MillraceError("invalid_option", `expected --out to name no mount point, got ${out}`, {
      hint: `Name a folder inside it, for example ${join(out, "model")}.`,
    });
  }
}

const inTheWay = (out: string): MillraceError =>
  new MillraceError("invalid_option", `expected --out to name a new file or an empty folder, got ${out}`, {
    hint: "Remove it first, or choose another name.",
  });

export function bytesIn(path: string): number {
  if (!existsSync(path)) return 0;
  const found = statSync(path);
  return found.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0) : found.size;
}
