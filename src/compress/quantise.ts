/**
 * Quantises a model into GGUF files, method by method, until one passes: each candidate is written, its predictions are compared with the original's,
 * and its answers to the user's questions are judged in pairs. A candidate that fails is kept aside with its figures.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { RowEncoder } from "../backend/backend.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import type { BlockType } from "../backend/ops.js";
import { convertModel } from "../convert/convert.js";
import { type FolderStorage, plainTypeOf, type Storage } from "../convert/weights/tensors.js";
import { MillraceError } from "../core/errors.js";
import { assertNewFile } from "../core/new-file.js";
import type { StartStage } from "../core/stages.js";
import type { WeightType } from "../formats/dequantize.js";
import { type EvalSettings, openEvalTarget } from "../lab/eval-target.js";
import { evaluate } from "../lab/evaluate.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import { compare } from "../quality/compare.js";
import type { TaskResult } from "../quality/run-task.js";
import type { EvalTask } from "../quality/tasks.js";
import { type Candidate, type CardFacts, cardOf } from "./card.js";
import { ErrorFeedback, type Rounding } from "./error-feedback.js";
import { isFolderMethod, type Layout } from "./folder-formats.js";
import type { Importance } from "./importance.js";
import { measureLoss } from "./loss.js";
import { mixedStorage } from "./mixed.js";
import { ScaleMover } from "./scale-mover.js";
import type { Scaling } from "./scale-search.js";
import { type Method, quantisedStorage, rowsAfter, rowsInTypes } from "./storage.js";

export interface QuantiseSettings {
  readonly model: string;
  /** A name that ends in `.gguf`, or of a folder for methods of folders. */
  readonly out: string;
  /** In the order in which they are tried; all of files, or all of folders. Of MIXED, `types` has the type of each group of matrices. */
  readonly methods: readonly (Method | typeof MIXED)[];
  readonly types?: ReadonlyMap<string, BlockType>;
  /** Of four-bit folders. */
  readonly layout: Layout;
  readonly importance: Importance | undefined;
  /** Token ids of texts for rounding with feedback. */
  readonly texts: readonly (readonly number[])[];
  readonly rounding: "gptq" | "nearest";
  /** Without `importance`, scales stay. undefined: as `usualScaling` has it */
  readonly scaling: Scaling | "none" | undefined;
  /** For a folder's card. */
  readonly about: Omit<CardFacts, "layout" | "rounding">;
  readonly numThreads: number;
  /** Token ids of texts to measure the loss on; empty: it is not measured. */
  readonly heldOut: readonly (readonly number[])[];
  readonly gate: QuantiseGate | undefined;
}

interface QuantiseGate {
  readonly tasks: readonly EvalTask[];
  /** Largest drop of right answers, as a share of 1. */
  readonly maxDrop: number;
  readonly evaluation: EvalSettings;
}

/** Types by measured sensitivity (mixed.ts). */
export const MIXED = "MIXED";

export interface Quantised {
  /** In the order in which they were tried. */
  readonly candidates: readonly Candidate[];
  /** undefined: none passed */
  readonly chosen: Candidate | undefined;
  readonly original: { readonly weightBytes: number; readonly weightType: string | undefined };
}

/** Throws the errors of `convertModel`, of opening models and of evaluations. */
export async function quantise(
  settings: QuantiseSettings,
  startStage: StartStage,
  onCandidate: (candidate: Candidate) => void,
  signal: AbortSignal,
): Promise<Quantised> {
  const { model, out, methods, gate } = settings;
  const { summary } = openModel(model);
  const original = { weightBytes: summary.weightBytes, weightType: summary.weightType };
  const candidates: Candidate[] = [];
  let reference: readonly TaskResult[] | undefined;
  const referenceFor = async (): Promise<readonly TaskResult[] | undefined> => {
    if (gate !== undefined) reference ??= await answersOf(model, gate, startStage, signal);
    return reference;
  };
  for (const method of methods) {
    signal.throwIfAborted();
    const written = await write(settings, method, startStage, signal);
    let judged: Pick<Candidate, "loss" | "quality">;
    try {
      judged = await judge(settings, await referenceFor(), startStage, signal);
    } catch (thrown) {
      // Nobody knows how good it is.
      rmSync(out, { recursive: true, force: true });
      throw thrown;
    }
    const { quality } = judged;
    const verdict = quality?.verdict ?? "passes";
    const path = verdict === "passes" ? out : asideOf(out, method, verdict);
    const candidate = { method, path, ...written, ...judged };
    if (isFolderMethod(method)) {
      const { about, layout, rounding } = settings;
      writeFileSync(join(out, "README.md"), cardOf(candidate, { ...about, layout, rounding }));
    }
    candidates.push(candidate);
    onCandidate(candidate);
    if (verdict === "passes") return { candidates, chosen: candidate, original };
    renameSync(out, path);
    writeFileSync(`${path}.json`, `${JSON.stringify(candidate)}\n`);
  }
  return { candidates, chosen: undefined, original };
}

/** @param reference the original's answers; undefined: nothing is asked */
async function judge(
  { model, out, heldOut, numThreads, gate }: QuantiseSettings,
  reference: readonly TaskResult[] | undefined,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Pick<Candidate, "loss" | "quality">> {
  const loss =
    heldOut.length === 0 ? undefined : await measureLoss(model, out, heldOut, numThreads, startStage, signal);
  if (gate === undefined || reference === undefined) return { loss };
  return { loss, quality: compare(reference, await answersOf(out, gate, startStage, signal), gate.maxDrop) };
}

/** Ends of the names of candidates that do not pass. */
const ASIDE = { fails: "failed", undecided: "undecided" } as const;

/** @example asideOf("m.gguf", "Q4_0", "fails") // "m.Q4_0.failed.gguf" */
const asideOf = (out: string, method: string, verdict: keyof typeof ASIDE): string =>
  isFolderMethod(method)
    ? `${out}.${method}.${ASIDE[verdict]}`
    : out.replace(/\.gguf$/, `.${method}.${ASIDE[verdict]}.gguf`);

async function write(
  settings: QuantiseSettings,
  method: Method | typeof MIXED,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Pick<Candidate, "numBytes" | "weightBytes" | "bitsPerWeight" | "scaled">> {
  const { model, out, importance, texts, rounding, numThreads } = settings;
  const encoder = createRowEncoder(numThreads);
  let feedback: ErrorFeedback | undefined;
  try {
    const mover = moverFor(settings, method, encoder, signal);
    if (rounding === "gptq") {
      // Blocks of a file have their columns in a row.
      const isOrdered = method !== MIXED && isFolderMethod(method);
      feedback = await ErrorFeedback.open({ model, texts, encoder, isOrdered, mover, numThreads }, startStage, signal);
    }
    const stage = startStage(method);
    const { numBytes } = await convertModel(
      {
        model,
        out,
        type: (opened) => storageFor(settings, method, opened, { encoder, importance, feedback, mover }),
        ...(mover && { change: (opened: OpenModel) => mover.moved.applyTo(opened) }),
      },
      (done, total) => stage.update(`${Math.floor((100 * done) / total)} % written`),
      (text) => stage.note(text),
      signal,
    );
    const { weightBytes, numParameters } = openModel(out).summary;
    const bitsPerWeight = (8 * weightBytes) / numParameters;
    stage.done(`${bitsPerWeight.toFixed(2)} bits a weight`);
    return { numBytes, weightBytes, bitsPerWeight, scaled: mover?.inputs };
  } finally {
    feedback?.close();
    encoder.close();
  }
}

function storageFor(
  { types, layout }: QuantiseSettings,
  method: Method | typeof MIXED,
  model: OpenModel,
  rounding: Rounding,
): Storage | FolderStorage {
  return method === MIXED
    ? mixedStorage(MIXED, types!, plainTypeOf(model.summary.weightType as WeightType), model, rounding)
    : quantisedStorage(method, model, rounding, layout);
}

/** By what each costs and saves: docs/background/benchmarks/quantising.md. */
function usualScaling(method: Method | typeof MIXED): Scaling | "none" {
  if (method === "INT8") return "smoothquant";
  return method.startsWith("INT4") ? "awq" : "none";
}

/** undefined: scales stay where they are */
function moverFor(
  settings: QuantiseSettings,
  method: Method | typeof MIXED,
  encoder: RowEncoder,
  signal: AbortSignal,
): ScaleMover | undefined {
  const { importance, layout } = settings;
  const scaling = settings.scaling ?? usualScaling(method);
  if (scaling === "none" || importance === undefined) return undefined;
  const model = openModel(settings.model);
  const after =
    method === MIXED
      ? rowsInTypes(storageFor(settings, method, model, { encoder, importance }) as Storage, encoder)
      : rowsAfter(method, model, encoder, layout);
  return new ScaleMover({ model, scaling, importance, rowsAfter: after }, signal);
}

async function answersOf(
  model: string,
  { tasks, evaluation }: QuantiseGate,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<readonly TaskResult[]> {
  const target = await openEvalTarget({ kind: "local", model }, evaluation, startStage, signal);
  try {
    return await evaluate(target, tasks, startStage);
  } finally {
    await target.close();
  }
}

/** Throws invalid_option where `out`, a file of a failed candidate, or another file to be written cannot be a new one. */
export function assertFree(
  { out, methods }: Pick<QuantiseSettings, "out" | "methods">,
  others: readonly string[],
): void {
  const aside = methods.flatMap((method) =>
    (["fails", "undecided"] as const).map((each) => asideOf(out, method, each)),
  );
  const reports = aside.map((path) => `${path}.json`);
  for (const path of [out, ...others, ...aside, ...reports]) assertNewFile(path);
  if (!others.some((path) => resolve(path) === resolve(out))) return;
  throw new MillraceError("invalid_option", `expected two files, got ${out} twice`);
}
