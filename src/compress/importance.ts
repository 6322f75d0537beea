/**
 * The importance of each column of a matrix: the mean square of its input over the user's texts, as in llama.cpp's
 * importance matrices. Both tools read each other's files.
 */

import { copyFileSync, existsSync, renameSync } from "node:fs";
import { join, resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import { asWritten } from "../convert/weights/delta-layers.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { ActivationMeter, type MeasuredInput } from "../engine/activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import { contentHashOf } from "../formats/content-hash.js";
import { openFile, readExactly } from "../formats/files/read-file.js";
import { readGguf } from "../formats/gguf/read.js";
import { arr, str, u32, type WritableTensor, writeGguf } from "../formats/gguf/write.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import { WINDOW } from "./calibration.js";
import { columnsOf, inOrder } from "./head-columns.js";
import type { Journal } from "./journal.js";

/** Columns that no text uses get this share of the mean, so that their weights keep some precision. */
const FLOOR = 1e-3;
/** Type name in llama.cpp's files (tools/imatrix). */
const KIND = "imatrix";
const SUMS = ".in_sum2";
const COUNTS = ".counts";
/** Most columns of the sums in a file. */
const MOST_COLS = 1 << 24;

export class Importance {
  /** @param means f64 [cols] by the matrix's name; value heads in the order of GGUF files */
  constructor(readonly means: ReadonlyMap<string, Float64Array>) {}

  /** The importance for a folder, in which value heads may have another order, and matrices may be merged. */
  inFolders(model: OpenModel): Importance {
    const [{ config: inFile }, { config: inFolder }] = [true, false].map((isFile) => asWritten(model, isFile)) as [
      OpenModel,
      OpenModel,
    ];
    const means = new Map(
      Array.from(this.means, ([name, own]) => [name, inOrder(own, columnsOf(inFile, inFolder, name))]),
    );
    // Files store the rows of `ssm_in` as two matrices with the same input.
    for (const [name, own] of this.means)
      if (name.endsWith(".attn_gate")) means.set(name.replace("attn_gate", "ssm_in"), own);
    return new Importance(means);
  }

  /**
   * @param name with or without `.weight`
   * @param factors factors by which the input's columns were divided
   * @returns above 0, one for each column; undefined: the importance is unknown @throws invalid_option
   */
  of(name: string, cols: number, factors?: Float32Array): Float32Array | undefined {
    const means = this.means.get(name.replace(/\.weight$/, ""));
    if (means === undefined) return undefined;
    if (means.length !== cols) {
      throw new MillraceError(
        "invalid_option",
        `expected the importance of ${cols} columns of ${name}, got ${means.length}`,
        {
          hint: "the importance matrix is of another model",
        },
      );
    }
    return weightsOfColumns(means, factors);
  }
}

/**
 * Weights of squared errors, above 0.
 * @param means mean squares of a matrix's inputs, before the division by `factors`
 */
export function weightsOfColumns(means: Float64Array, factors?: Float32Array): Float32Array | undefined {
  const squares = factors === undefined ? means : means.map((value, col) => value / factors[col]! ** 2);
  const mean = squares.reduce((sum, value) => sum + value, 0) / squares.length;
  // Without any input the importance is unknown.
  return mean > 0 ? Float32Array.from(squares, (value) => Math.min(value / mean, 1e6) + FLOOR) : undefined;
}

/** @param windows token ids of texts, each within the context @returns with value heads in the order of GGUF files */
export async function measureImportance(
  modelPath: string,
  windows: readonly (readonly number[])[],
  numThreads: number,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<readonly MeasuredInput[]> {
  const stage = startStage("importance");
  const longest = windows.reduce((most, { length }) => Math.max(most, length), 0);
  const meter = await ActivationMeter.open({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads, maxModelLen: longest });
  try {
    const measured = await meter.squares(windows, async (numTexts) => {
      // Steps end synchronously, and signals are only handled between turns of the event loop.
      await setImmediate();
      signal.throwIfAborted();
      stage.update(`${numTexts} of ${windows.length} texts`);
    });
    stage.done(`${windows.reduce((sum, { length }) => sum + length, 0)} tokens of ${windows.length} texts`);
    const model = openModel(modelPath);
    const { config: inFile } = asWritten(model, true);
    return measured.map((each) => ({
      ...each,
      sums: inOrder(each.sums, columnsOf(model.config, inFile, each.names[0]!)),
    }));
  } finally {
    meter.close();
  }
}

interface CalibrationRun {
  /** The model's path. */
  readonly model: string;
  /** Token ids of the texts. */
  readonly texts: readonly (readonly number[])[];
  /** The texts' file, as files of the importance name it. */
  readonly source: string;
  /** Path of a separate importance file that the user wants. */
  readonly saveTo: string | undefined;
  readonly numThreads: number;
  readonly journal: Journal;
}

/** Importance of the columns over the texts, measured only once, even if the journal's run stops often. */
export async function keptImportance(
  { model: path, texts, source, saveTo, numThreads, journal }: CalibrationRun,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Importance> {
  const kept = join(journal.folder, "importance.gguf");
  const digest = (): string => contentHashOf([kept], () => {});
  let importance: Importance;
  if (existsSync(kept) && journal.get("importance") === digest()) {
    importance = readImportance(kept);
    startStage("importance").done("measured by the run that was stopped");
  } else {
    const measured = await measureImportance(path, texts, numThreads, startStage, signal);
    importance = importanceOf(measured);
    const model = asWritten(openModel(path), true);
    const tensors = tensorsOf(model.config, model.tensors());
    const stacked = new Map(tensors.map(({ name, stack }) => [name, stack?.count ?? 1]));
    writeImportance(kept, measured, (name) => stacked.get(name) ?? 0, { source, window: WINDOW });
    // Files with infinite or NaN sums are refused.
    if (measured.every(({ sums }) => sums.every((sum) => Number.isFinite(Math.fround(sum)))))
      journal.set("importance", digest());
  }
  if (saveTo !== undefined && !existsSync(saveTo)) {
    journal.claim(resolve(saveTo));
    const partial = `${saveTo}.${process.pid}.partial`;
    copyFileSync(kept, partial);
    renameSync(partial, saveTo);
  }
  return importance;
}

/** Sums in f32, as in files, so that a stored importance gives the same bytes. */
export const importanceOf = (measured: readonly MeasuredInput[]): Importance =>
  new Importance(
    new Map(
      measured.flatMap(({ names, sums, numRows }) => {
        const means = sums.map((sum) => Math.fround(sum) / Math.fround(numRows));
        return names.map((name) => [name, means]);
      }),
    ),
  );

/**
 * Writes the measurements of the model's matrices: the whole file or nothing. All experts of a stack share a
 * measurement, which the file repeats for each, as llama.cpp expects.
 * @param numStacked number of matrices under a name: 1, the experts of a stack, or 0 if the model has none
 * @param source named in the file
 */
export function writeImportance(
  path: string,
  measured: readonly MeasuredInput[],
  numStacked: (name: string) => number,
  { source, window }: { readonly source: string; readonly window: number },
): void {
  const repeated = (values: Float64Array, count: number) =>
    function* (): Generator<Uint8Array> {
      const bytes = new Uint8Array(Float32Array.from(values).buffer);
      for (let i = 0; i < count; i++) yield bytes;
    };
  const tensors = measured.flatMap(({ names, sums, numRows }) =>
    names.flatMap((each): WritableTensor[] => {
      const name = `${each}.weight`;
      const count = numStacked(name);
      if (count === 0) return [];
      const rows = Float64Array.of(numRows);
      return [
        { name: `${name}${SUMS}`, type: "F32", shape: [sums.length, count], data: repeated(sums, count) },
        { name: `${name}${COUNTS}`, type: "F32", shape: [1, count], data: repeated(rows, count) },
      ];
    }),
  );
  const numRows = measured[0]?.numRows ?? 0;
  const partial = `${path}.${process.pid}.partial`;
  writeGguf(partial, {
    metadata: {
      "general.type": str(KIND),
      "imatrix.datasets": arr("string", [source]),
      "imatrix.chunk_count": u32(Math.ceil(numRows / window)),
      "imatrix.chunk_size": u32(window),
    },
    tensors,
  });
  renameSync(partial, path);
}

/**
 * Reads a file of `writeImportance` or of llama.cpp's `llama-imatrix`. Throws the errors of GGUF files, and
 * invalid_option.
 */
export function readImportance(path: string): Importance {
  const { metadata, tensors, shards } = readGguf(path);
  const refuse = (problem: string): never => {
    throw new MillraceError("invalid_option", `expected an importance matrix in ${path}, got ${problem}`, {
      hint: "write one with millrace quantize --save-imatrix, or with llama-imatrix (a .gguf file)",
    });
  };
  if (metadata.get("general.type") !== KIND)
    refuse(`a file of type ${String(metadata.get("general.type") ?? "model")}`);
  const means = new Map<string, Float64Array>();
  const valuesOf = (name: string): { readonly values: Float32Array; readonly shape: readonly number[] } => {
    const found = tensors.get(name);
    if (found === undefined || found.type !== "F32") return refuse(`no F32 values ${name}`);
    using file = openFile(shards[found.shard]!.path);
    const bytes = readExactly(file, found.byteOffset, found.byteLength);
    const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    if (values.some((value) => !(value >= 0) || value === Number.POSITIVE_INFINITY))
      refuse(`${name} below 0 or infinite`);
    return { values, shape: found.shape };
  };
  for (const name of tensors.keys()) {
    if (!name.endsWith(SUMS)) continue;
    const matrix = name.slice(0, -SUMS.length);
    const { values, shape } = valuesOf(name);
    const cols = shape[0]!;
    const { values: counts } = valuesOf(`${matrix}${COUNTS}`);
    const numStacked = values.length / cols;
    if (cols > MOST_COLS || counts.length !== numStacked)
      refuse(`${counts.length} counts for ${numStacked} rows of ${name}`);
    // Experts of a stack share one importance: their summed squares over the summed number of their inputs.
    const total = counts.reduce((sum, count) => sum + count, 0);
    const sums = new Float64Array(cols);
    for (const [index, value] of values.entries()) sums[index % cols]! += value;
    if (total > 0)
      means.set(
        matrix.replace(/\.weight$/, ""),
        sums.map((sum) => sum / total),
      );
  }
  if (means.size === 0) refuse("no sums");
  return new Importance(means);
}
