/** Writes any model that the embedded engine reads in the other format, or in the same one with another type of numbers. */
import { existsSync, linkSync, lstatSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { MillraceError } from "../core/errors.js";
import type { WeightType } from "../formats/dequantize.js";
import type { PlainType } from "../formats/files/plain-values.js";
import { type ServableModel, unservedVariant } from "../model/description/servable.js";
import { openModel } from "../model/open-model.js";
import { loadTextSide } from "../text/text-side.js";
import { writeFile } from "./gguf/write-file.js";
import { writeFolder } from "./hf/write-folder.js";
import { type CopySource, plainTypeOf } from "./weights/tensors.js";

export interface ConvertOptions {
  /** A GGUF file or a Hugging Face folder. */
  readonly model: string;
  /** A path that ends in `.gguf`, or a folder that is empty or missing. */
  readonly out: string;
  /** Type of the matrices; undefined: the one that loses the least (`plainTypeOf`). */
  readonly type: PlainType | undefined;
}

export interface Converted {
  readonly path: string;
  readonly format: "gguf" | "hf";
  readonly type: PlainType;
  readonly numBytes: number;
}

/**
 * The result appears under its name only when it is whole.
 * @param onWritten called with the bytes of tensors written so far, and those of all
 * @param onNote called with what the copy does otherwise than the model
 * @throws invalid_option for an `out` that exists; architecture_unsupported and tokenizer_unsupported, where the format has no words for the model
 */
export async function convertModel(
  { model: path, out: wantedOut, type: wanted }: ConvertOptions,
  onWritten: (numBytes: number, total: number) => void = () => {},
  onNote: (text: string) => void = () => {},
): Promise<Converted> {
  const out = resolve(wantedOut);
  const isFile = out.endsWith(".gguf");
  refuseExisting(out, isFile);
  const model = openModel(path);
  const text = await loadTextSide(path);
  const type = wanted ?? plainTypeOf(model.summary.weightType as WeightType | undefined);
  const place = mkdtempSync(`${out}.partial-`);
  try {
    const copy = join(place, isFile ? "copy.gguf" : "copy");
    writeCopy(copy, isFile, { path, model, text }, type, { onWritten, onNote });
    publish(copy, out, isFile);
  } finally {
    rmSync(place, { recursive: true, force: true });
    text.asyncTokenizer.end();
  }
  return { path: out, format: isFile ? "gguf" : "hf", type, numBytes: bytesIn(out) };
}

/** Gives the copy its name, and never replaces what has come to lie there meanwhile. */
function publish(copy: string, out: string, isFile: boolean): void {
  try {
    // Renaming would replace a file; it replaces an empty folder only.
    if (isFile) linkSync(copy, out);
    else renameSync(copy, out);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "EEXIST" || code === "ENOTEMPTY" || code === "ENOTDIR") throw inTheWay(out);
    throw thrown;
  }
}

interface CopyProgress {
  onWritten(numBytes: number, total: number): void;
  onNote(text: string): void;
}

/** Writes the copy and reads it again. */
export function writeCopy(
  out: string,
  isFile: boolean,
  source: CopySource,
  type: PlainType,
  { onWritten, onNote }: CopyProgress,
): void {
  if (isFile) writeFile(out, source, type, onWritten, onNote);
  else writeFolder(out, source, type, onWritten);
  expectSame(source.model.config, openModel(out).config);
}

/** Settings that decide a model's answers and differ between formats in their rounding at most. */
function expectSame(original: ServableModel, copy: ServableModel): void {
  const settings = ({ layers, ropes, ...model }: ServableModel) => ({
    width: model.width,
    vocabSize: model.vocabSize,
    contextLength: model.contextLength,
    isTied: model.isTied,
    rmsEps: Math.fround(model.rmsEps),
    embeddingScale: model.embeddingScale,
    attentionScale: Math.fround(model.attentionScale),
    activation: model.activation,
    layers: layers.map(({ mixer, feedForward }) => ({ ...mixer, ffWidth: feedForward.width })),
    ropes: ropes.map(({ dim, base, scaling, ...scaled }) => [
      dim,
      Math.fround(base),
      scaling,
      ...(scaling === "none" ? [] : Object.values(scaled).map(Math.fround)),
    ]),
  });
  const [wanted, got] = [settings(original), settings(copy)];
  for (const key of Object.keys(wanted) as (keyof typeof wanted)[]) {
    if (isDeepStrictEqual(wanted[key], got[key])) continue;
    const shown = (value: unknown) => JSON.stringify(value).slice(0, 200);
    throw unservedVariant(
      `expected a format that can say ${key} ${shown(wanted[key])}, got one that says ${shown(got[key])}`,
    );
  }
}

function refuseExisting(out: string, isFile: boolean): void {
  const found = lstatSync(out, { throwIfNoEntry: false });
  if (found === undefined) {
    const parent = dirname(out);
    if (statSync(parent, { throwIfNoEntry: false })?.isDirectory() === true) return;
    throw new MillraceError("invalid_option", `expected --out in a folder that is there, got ${parent}`);
  }
  if (isFile || !found.isDirectory() || readdirSync(out).length > 0) throw inTheWay(out);
}

const inTheWay = (out: string): MillraceError =>
  new MillraceError("invalid_option", `expected --out to name a new file or an empty folder, got ${out}`, {
    hint: "Remove it first, or choose another name.",
  });

function bytesIn(path: string): number {
  if (!existsSync(path)) return 0;
  const found = statSync(path);
  return found.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0) : found.size;
}
