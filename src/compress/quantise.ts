/**
 * Quantises a model, method by method, until a candidate passes: each candidate is written, its predictions are
 * compared with the original's, and its answers to the user's questions are judged in pairs. A passing candidate gets
 * the requested name; a failing one is kept aside with its figures.
 */
import { existsSync, lstatSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { RowEncoder } from "../backend/backend.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import type { BlockType } from "../backend/ops.js";
import { bytesIn, isFileName, openForCopy, publishCopy, writeWholeCopy } from "../convert/convert.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import { type FolderStorage, plainTypeOf, type Storage } from "../convert/weights/tensors.js";
import { MillraceError } from "../core/errors.js";
import { assertNewFile } from "../core/new-file.js";
import type { Stage, StartStage } from "../core/stages.js";
import { contentHashOf } from "../formats/content-hash.js";
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
import { InputPeaks } from "./input-peaks.js";
import { CANDIDATE, type Journal, type Recall } from "./journal.js";
import { measureLoss } from "./loss.js";
import { mixedStorage } from "./mixed.js";
import { ScaleMover } from "./scale-mover.js";
import type { Scaling } from "./scale-search.js";
import { type Method, quantisedStorage, rowsAfter, rowsInTypes } from "./storage.js";

export interface QuantiseSettings {
  readonly model: string;
  /** A name that ends in `.gguf`, or a folder's name for folder methods. */
  readonly out: string;
  /**
   * In order of trial; all for files, or all for folders. For MIXED, `types` has the type of each group of matrices.
   */
  readonly methods: readonly (Method | typeof MIXED)[];
  readonly types?: ReadonlyMap<string, BlockType>;
  /** Layout of four-bit folders. */
  readonly layout: Layout;
  readonly importance: Importance | undefined;
  /** Token ids of texts for rounding with feedback. */
  readonly texts: readonly (readonly number[])[];
  readonly rounding: "gptq" | "nearest";
  /** Scales stay without `importance`. undefined: the choice of `usualScaling` */
  readonly scaling: Scaling | "none" | undefined;
  /** Facts for the card. */
  readonly about: Omit<CardFacts, "layout" | "rounding" | "date">;
  readonly numThreads: number;
  /** Token ids of texts for measuring the loss; empty: it is not measured. */
  readonly heldOut: readonly (readonly number[])[];
  readonly gate: QuantiseGate | undefined;
  /** The journal of the run that writes `out`. */
  readonly journal: Journal;
}

interface QuantiseGate {
  readonly tasks: readonly EvalTask[];
  /** Largest permitted drop of right answers, as a share of 1. */
  readonly maxDrop: number;
  readonly evaluation: EvalSettings;
}

/** Types by measured sensitivity (mixed.ts). */
export const MIXED = "MIXED";

export interface Quantised {
  /** In order of trial. */
  readonly candidates: readonly Candidate[];
  /** undefined: none passed */
  readonly chosen: Candidate | undefined;
  readonly original: { readonly weightBytes: number; readonly weightType: string | undefined };
}

/** Throws the errors of `convertModel`, of opening models and of evaluations. */
export async function quantise(
  asked: QuantiseSettings,
  startStage: StartStage,
  onCandidate: (candidate: Candidate) => void,
  signal: AbortSignal,
): Promise<Quantised> {
  const { model, methods } = asked;
  const opened = openModel(model);
  const { summary } = opened;
  const isOfFolders = methods.some(isFolderMethod);
  const settings = isOfFolders ? { ...asked, importance: asked.importance?.inFolders(opened) } : asked;
  const original = { weightBytes: summary.weightBytes, weightType: summary.weightType };
  const candidates: Candidate[] = [];
  for (const method of methods) {
    signal.throwIfAborted();
    const candidate = await candidateOf(settings, method, startStage, signal);
    const isChosen = candidate.path === settings.out;
    candidates.push(candidate);
    onCandidate(candidate);
    // A file without a judgement needs no report.
    if (!isChosen || candidate.quality !== undefined) writeReport(candidate);
    if (isChosen) return { candidates, chosen: candidate, original };
  }
  return { candidates, chosen: undefined, original };
}

/** Writes a copy, judges it, and gives it its own name, except for steps that a stopped run has finished. */
async function candidateOf(
  settings: QuantiseSettings,
  method: Method | typeof MIXED,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Candidate> {
  const { out, about, rounding, journal } = settings;
  const id = `${CANDIDATE}${method}`;
  const placeFor = (verdict: "passes" | keyof typeof ASIDE = "passes"): string =>
    verdict === "passes" ? out : asideOf(out, method, verdict);
  const copy = join(journal.folder, isFolderMethod(method) ? method : `${method}.gguf`);
  const known = journal.get(id) as Candidate | undefined;
  const isPublished = known !== undefined && !existsSync(copy) && existsSync(known.path);
  // A journal from someone else could name any file.
  if (isPublished && known.path === placeFor(known.quality?.verdict)) return known;
  const written = await write(settings, method, copy, startStage, signal);
  const judged = await judge(settings, method, copy, startStage, signal);
  const path = placeFor(judged.quality?.verdict);
  const candidate = { method, path, ...written, ...judged };
  const layout = isFolderMethod(method) ? settings.layout : "GGUF";
  const date = await journal.recall("date", () => new Date().toISOString().slice(0, 10));
  journal.set(id, candidate);
  const cardPath = isFolderMethod(method) ? join(copy, "README.md") : cardOfFile(path);
  for (const each of [path, reportOf(path), cardPath]) journal.claim(resolve(each));
  // The card must exist before the copy has its name, since a later run then does nothing.
  writeFileSync(cardPath, cardOf(candidate, { ...about, layout, rounding, date }));
  publish(copy, path);
  return candidate;
}

/** The bytes' hash binds the figures to this file: plans use them for no other. */
function writeReport(candidate: Candidate): void {
  const content = contentHashOf(openModel(candidate.path).files, () => {});
  writeFileSync(reportOf(candidate.path), `${JSON.stringify({ ...candidate, content })}\n`);
}

const reportOf = (path: string): string => `${path}.json`;
/** @example cardOfFile("m.gguf") // "m.md" */
const cardOfFile = (path: string): string => path.replace(/\.gguf$/, ".md");

async function judge(
  { model, heldOut, numThreads, gate, journal }: QuantiseSettings,
  method: string,
  copy: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Pick<Candidate, "loss" | "quality">> {
  const measure = () => measureLoss(model, copy, heldOut, numThreads, startStage, signal);
  const loss = heldOut.length === 0 ? undefined : await journal.recall(`loss of ${method}`, measure);
  if (gate === undefined) return { loss };
  const answers = (id: string, path: string): Promise<readonly TaskResult[]> =>
    journal.recall(`answers of ${id}`, () => answersOf(path, gate, startStage, signal));
  return { loss, quality: compare(await answers("the model", model), await answers(method, copy), gate.maxDrop) };
}

function publish(copy: string, path: string): void {
  const [own, there] = [statSync(copy), lstatSync(path, { throwIfNoEntry: false })];
  // During publishing a file briefly has both names, and the run may have been stopped then.
  if (there === undefined || there.ino !== own.ino || there.dev !== own.dev) publishCopy(copy, path);
  rmSync(copy, { force: true });
}

/** Name endings of candidates that do not pass. */
const ASIDE = { fails: "failed", undecided: "undecided" } as const;

/** @example asideOf("m.gguf", "Q4_0", "fails") // "m.Q4_0.failed.gguf" */
const asideOf = (out: string, method: string, verdict: keyof typeof ASIDE): string =>
  isFolderMethod(method)
    ? `${out}.${method}.${ASIDE[verdict]}`
    : out.replace(/\.gguf$/, `.${method}.${ASIDE[verdict]}.gguf`);

async function write(
  settings: QuantiseSettings,
  method: Method | typeof MIXED,
  copy: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Pick<Candidate, "numBytes" | "weightBytes" | "bitsPerWeight" | "scaled">> {
  const { model, importance, texts, rounding, numThreads, journal } = settings;
  const encoder = createRowEncoder(numThreads);
  let feedback: ErrorFeedback | undefined;
  try {
    const mover = moverFor(settings, method, copy, encoder, signal);
    if (rounding === "gptq") {
      const isFile = isFileName(copy);
      feedback = await ErrorFeedback.open({ model, texts, encoder, isFile, mover, numThreads }, startStage, signal);
    }
    const peaks =
      method === "FP8_TENSOR" && texts.length > 0
        ? await InputPeaks.of({ model, texts, numThreads, recall: journal.recall }, startStage, signal)
        : undefined;
    const stage = startStage(method);
    await writeWholeCopy(
      {
        model,
        out: copy,
        type: (opened) => storageFor(settings, method, opened, { encoder, importance, feedback, mover, peaks }),
        ...(mover && { change: (opened: OpenModel) => mover.moved.applyTo(opened) }),
      },
      progressOf(settings, method, stage),
      signal,
    );
    await mover?.moveInAll();
    const numBytes = bytesIn(copy);
    const { weightBytes, numParameters } = openModel(copy).summary;
    const bitsPerWeight = (8 * weightBytes) / numParameters;
    stage.done(`${bitsPerWeight.toFixed(2)} bits a weight`);
    return { numBytes, weightBytes, bitsPerWeight, scaled: mover?.inputs };
  } finally {
    feedback?.close();
    encoder.close();
  }
}

function progressOf({ journal }: QuantiseSettings, method: string, stage: Stage) {
  const onFound = (numThere: number, numTensors: number): void => {
    if (journal.isResumed) stage.note(`resumed: ${numThere} of ${numTensors} tensors were there`);
  };
  return {
    onWritten: (done: number, total: number) => stage.update(`${Math.floor((100 * done) / total)} % written`),
    onNote: (text: string) => stage.note(text),
    log: journal.tensorLog(method, onFound),
  };
}

function storageFor(
  { types, layout }: QuantiseSettings,
  method: Method | typeof MIXED,
  model: OpenModel,
  rounding: Rounding,
): Storage | FolderStorage {
  if (method === MIXED)
    return mixedStorage(MIXED, types!, plainTypeOf(model.summary.weightType as WeightType), model, rounding);
  const storage = quantisedStorage(method, model, rounding, layout);
  const { layers } = storage as FolderStorage;
  if (layers !== undefined && !tensorsOf(model.config, model.tensors()).some((tensor) => layers.takes(tensor))) {
    throw new MillraceError("invalid_option", `expected a model with matrices that ${method} can store, got none`, {
      hint: "Their rows must be whole numbers of its groups of columns. Try INT8 or FP8, or a GGUF type.",
    });
  }
  return storage;
}

/** The usual scaling by method, from the costs and savings in docs/background/benchmarks/quantising.md. */
function usualScaling(method: Method | typeof MIXED): Scaling | "none" {
  if (method === "INT8") return "smoothquant";
  return method.startsWith("INT4") ? "awq" : "none";
}

/** undefined: scales stay in place */
function moverFor(
  settings: QuantiseSettings,
  method: Method | typeof MIXED,
  copy: string,
  encoder: RowEncoder,
  signal: AbortSignal,
): ScaleMover | undefined {
  const { importance, layout, journal } = settings;
  const scaling = settings.scaling ?? usualScaling(method);
  if (scaling === "none" || importance === undefined) return undefined;
  const model = openForCopy(settings.model, copy);
  const after =
    method === MIXED
      ? rowsInTypes(storageFor(settings, method, model, { encoder, importance }) as Storage, encoder)
      : rowsAfter(method, model, encoder, layout);
  const recall: Recall = (id, make) => journal.recall(`${method}: ${id}`, make);
  return new ScaleMover({ model, scaling, importance, rowsAfter: after, recall }, signal);
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

/**
 * Throws invalid_option if `out`, a file for a failed candidate, or another output file exists already.
 * @param own paths that may exist, because a stopped run has written them
 */
export function assertFree(
  { out, methods }: Pick<QuantiseSettings, "out" | "methods">,
  others: readonly string[],
  own: ReadonlySet<string>,
): void {
  const aside = methods.flatMap((method) =>
    (["fails", "undecided"] as const).map((each) => asideOf(out, method, each)),
  );
  const files = [out, ...aside];
  const cards = files.filter((path) => path.endsWith(".gguf")).map(cardOfFile);
  for (const path of [...files, ...others, ...cards, ...files.map(reportOf)]) {
    if (!own.has(resolve(path)) || !existsSync(path)) assertNewFile(path);
  }
  if (!others.some((path) => resolve(path) === resolve(out))) return;
  throw new MillraceError("invalid_option", `expected two files, got ${out} twice`);
}
