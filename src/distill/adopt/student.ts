/**
 * Prepares a student trained elsewhere for serving: merges an adapter into its base, and converts the weights on
 * request.
 */
import { join, resolve } from "node:path";
import { createRowEncoder } from "../../backend/create/create-backend.js";
import { LAYOUTS } from "../../compress/folder-formats.js";
import { METHODS, type Method, quantisedStorage } from "../../compress/storage.js";
import { convertModel, withPlace, writingTo } from "../../convert/convert.js";
import { type Merged, mergeAdapter } from "../../convert/lora/merge-adapter.js";
import { baseNamedBy, isAdapter } from "../../convert/lora/read-adapter.js";
import { defaultNumThreads } from "../../core/cpu.js";
import { optionError } from "../../core/option-error.js";
import type { Stage, StartStage } from "../../core/stages.js";
import { locateModel } from "../../formats/locate-model.js";

export interface StudentOptions {
  /** Folder of an adapter, or a model as for --model. */
  readonly student: string;
  /** The base model of an adapter's training. */
  readonly base?: string;
  /** The model to write; absent: the student is served unchanged. */
  readonly out?: string;
  readonly quantize?: string;
}

export interface Student {
  /** Absolute, since a gateway runs in another folder. */
  readonly path: string;
  readonly name: string;
  /** undefined: the student was a whole model */
  readonly merged: Omit<Merged, "path"> | undefined;
  /** undefined: the weights are unchanged */
  readonly weights: string | undefined;
}

/** Throws invalid_option, before any work. */
export function checkStudentOptions({ student, base, out, quantize }: StudentOptions): void {
  if (isAdapter(student)) {
    if (base === undefined) {
      const named = baseNamedBy(student);
      const said = named === undefined ? "" : ` (${student} says ${JSON.stringify(named.slice(0, 200))})`;
      throw optionError("--base", `the model that the adapter was trained on${said}`, "nothing");
    }
    if (out === undefined) throw optionError("--out", "given, as the adapter and its base become one model", "nothing");
  } else if (base !== undefined) {
    throw optionError("--base", `left out, as ${student} has no adapter_config.json`, base);
  }
  if (quantize === undefined) return;
  if (!METHODS.includes(quantize as Method)) throw optionError("--quantize", `one of ${METHODS.join(", ")}`, quantize);
  if (out === undefined) throw optionError("--out", "given beside --quantize", "nothing");
}

/** Throws the errors of merging and converting. */
export async function prepareStudent(
  { student, base, out, quantize }: StudentOptions,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Student> {
  if (out === undefined) {
    const { path, name } = await locateModel(student, startStage);
    return { path: resolve(path), name, merged: undefined, weights: undefined };
  }
  const path = resolve(out);
  const name = out;
  const isWhole = !isAdapter(student);
  if (isWhole) {
    const { path: model } = await locateModel(student, startStage);
    return { path, name, merged: undefined, weights: await convert(model, path, quantize, startStage, signal) };
  }
  const { path: basePath } = await locateModel(base, startStage);
  const merge = async (to: string): Promise<Omit<Merged, "path">> => {
    const stage = startStage("merge");
    const tell = shareTo(stage);
    const { path: _, ...merged } = await mergeAdapter({ base: basePath, adapter: student, out: to }, tell, signal);
    stage.done(`${merged.numMatrices} matrices of rank ${merged.rank}`);
    return merged;
  };
  if (!path.endsWith(".gguf") && quantize === undefined) {
    return { path, name, merged: await merge(path), weights: undefined };
  }
  return writingTo(path, "nothing was left there", () =>
    withPlace(path, path.endsWith(".gguf"), async (between) => {
      const merged = await merge(join(between, "model"));
      const weights = await convert(join(between, "model"), path, quantize, startStage, signal);
      return { path, name, merged, weights };
    }),
  );
}

const shareTo =
  (stage: Stage) =>
  (numBytes: number, total: number): void =>
    stage.update(`${Math.floor((100 * numBytes) / total)} %`);

/** @returns the type of the copy's matrices */
async function convert(
  model: string,
  out: string,
  quantize: string | undefined,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<string> {
  const stage = startStage("convert");
  const note = (text: string): void => stage.note(text);
  if (quantize === undefined) {
    const { type } = await convertModel({ model, out, type: undefined }, shareTo(stage), note, signal);
    stage.done(type);
    return type;
  }
  const encoder = createRowEncoder(defaultNumThreads());
  try {
    const rounding = { encoder, importance: undefined };
    const storage = (opened: Parameters<typeof quantisedStorage>[1]) =>
      quantisedStorage(quantize as Method, opened, rounding, LAYOUTS[0]);
    const { type } = await convertModel({ model, out, type: storage }, shareTo(stage), note, signal);
    stage.done(type);
    return type;
  } finally {
    encoder.close();
  }
}
