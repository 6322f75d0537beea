/**
 * Trains a draft model, or heads, on a model's own answers to the user's prompts, and measures how often the engine
 * accepts their drafts.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { machineInfo, versions } from "../bench/results/machine.js";
import { optionError } from "../core/option-error.js";
import type { StartStage } from "../core/stages.js";
import { DEFAULT_SPECULATIVE_CONFIG, type SpeculativeConfig } from "../engine/api/speculative-config.js";
import { readGguf } from "../formats/gguf/read.js";
import type { GgufMetadata } from "../formats/gguf/types.js";
import { locateModel } from "../formats/locate-model.js";
import { askOf, openLocalSession } from "../local/session.js";
import { engineOptionsFor } from "../local/start-engine.js";
import { runAll, seedOf } from "../quality/ask.js";
import { acceptanceOf, type MeasuredAcceptance } from "./acceptance.js";
import { collectCorpora } from "./collect.js";
import type { Corpora } from "./collection.js";
import { readPrompts, splitPrompts } from "./prompts.js";
import { writeStates } from "./states.js";
import { checkInitFrom, inOwnFolder, modelHash, samplingOf, sourceOf, type TeachingOptions } from "./teaching.js";
import { type TrainPlan, trainInStage } from "./train-run.js";
import { findPython, type HeldOutLog, untrainable } from "./trainer.js";

export interface DrafterOptions extends TeachingOptions {
  /** A model as for --model; absent: the bundled model. */
  readonly model?: string;
  readonly kind: "draft" | "medusa" | "eagle" | "eagle3";
  /** Drafted tokens per step. */
  readonly depth: number;
  /** Width of an eagle layer; absent: the model's. */
  readonly width?: number;
  /** Most tokens per step; absent: enough for full drafts of all sequences. */
  readonly maxNumBatchedTokens?: number;
}

export interface FittedDrafter {
  readonly model: string;
  readonly outPath: string;
  readonly numHeldOut: number;
  readonly acceptance: MeasuredAcceptance;
  readonly trained: HeldOutLog;
}

export async function trainDrafter(
  options: DrafterOptions,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<FittedDrafter> {
  const isDraft = options.kind === "draft";
  if (!isDraft && options.initFrom !== undefined)
    throw optionError("--init-from", "left out for heads", options.initFrom);
  const split = splitPrompts(readPrompts(options.prompts), options.holdoutShare);
  const { path, name, files } = await locateModel(options.model, startStage);
  const metadata = options.kind === "eagle3" ? undefined : trainableMetadata(path, name);
  if (options.width !== undefined) checkWidth(options, options.width, metadata);
  if (isDraft) checkInitFrom(options, path);
  const python = await findPython();
  // A drafter must predict the model's likeliest token at each position.
  const greedy = { ...options, temperature: 0 };
  const contentHash = modelHash(path, startStage);
  return inOwnFolder(options, startStage, signal, async () => {
    const { corpora } = await collectCorpora({ name, path, contentHash }, split, greedy, startStage, signal);
    const depth = String(options.depth);
    if (metadata === undefined) {
      const outPath = join(options.out, options.kind);
      const folder = join(options.out, "states");
      const settings = await engineOptionsFor(options.engine, { path, files }, startStage);
      const engine = { ...settings, chatTemplate: options.chatTemplate };
      const contextLength = await writeStates(folder, name, engine, corpora, startStage, signal);
      const args = ["eagle3", "--depth", depth];
      const model = { flag: "--states", path: folder, contentHash };
      return finish({ python, args, model, corpora, outPath }, contextLength);
    }
    const outPath = join(options.out, `${options.kind}.gguf`);
    const kindArgs = isDraft ? ["distill", "--preset", "draft"] : ["heads", "--kind", options.kind, "--depth", depth];
    if (options.width !== undefined) kindArgs.push("--width", String(options.width));
    // The model's context limits the training chats.
    const contextLength = metadata.number("llama.context_length")!;
    const args = [...kindArgs, "--max-length", String(contextLength - (isDraft ? 0 : options.depth))];
    const base = { flag: isDraft ? "--teacher" : "--base", path, contentHash };
    return finish({ python, args, model: base, corpora, outPath }, contextLength);
  });

  async function finish(plan: TrainPlan, contextLength: number): Promise<FittedDrafter> {
    const { corpora, outPath } = plan;
    const trained = await trainInStage(plan, options, startStage, signal);
    const acceptance = await measureDrafts(options, { path, contextLength }, outPath, corpora, startStage, signal);
    const fitted = { model: name, outPath, numHeldOut: corpora.heldOut.length, acceptance, trained };
    writeReport(options, fitted);
    return fitted;
  }
}

/** Throws invalid_option for models that models/training/network.py cannot compute. */
function trainableMetadata(path: string, name: string): GgufMetadata {
  const model = path.endsWith(".gguf") ? readGguf(path) : undefined;
  const problem = model === undefined ? "files other than GGUF" : untrainable(model, "network");
  if (model !== undefined && problem === undefined) return model.metadata;
  throw optionError("--model", `a model of the mill family, not one with ${problem} (--kind eagle3 takes any)`, name);
}

/** Columns of a matrix that share a quantisation scale. */
const QUANTIZED_BLOCK = 32;

function checkWidth({ kind, depth }: DrafterOptions, width: number, metadata: GgufMetadata | undefined): void {
  if (kind !== "eagle" || metadata === undefined)
    throw optionError("--width", `left out for kind ${kind}`, String(width));
  const whole = metadata.number("llama.embedding_length")!;
  if (width > whole || width % QUANTIZED_BLOCK !== 0) {
    throw optionError("--width", `a multiple of ${QUANTIZED_BLOCK} up to ${whole}`, String(width));
  }
  if (width < whole && depth < 2) throw optionError("--depth", "at least 2 for a layer narrower than the model", "1");
}

/** The drafter's method in --speculative-config. */
const methodOf = ({ kind }: Pick<DrafterOptions, "kind">) => (kind === "draft" ? "draft_model" : kind);

/** Answers the held-out prompts with this drafter only, always at full draft length. */
async function measureDrafts(
  options: DrafterOptions,
  { path, contextLength }: { readonly path: string; readonly contextLength: number },
  draftModelPath: string,
  { heldOut }: Corpora,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<MeasuredAcceptance> {
  const { engine, depth } = options;
  const speculative: SpeculativeConfig = {
    ...DEFAULT_SPECULATIVE_CONFIG,
    method: methodOf(options),
    draftModelPath,
    numSpeculativeTokens: depth,
    alternatives: 0,
    isAdaptive: false,
  };
  // A step has rows for a full draft of every sequence.
  const wholePrompt = engine.enableChunkedPrefill ? 128 : (engine.maxModelLen ?? contextLength);
  const maxNumBatchedTokens = options.maxNumBatchedTokens ?? wholePrompt + engine.maxNumSeqs * (depth + 1);
  const own = sourceOf({ ...options, engine: { ...engine, speculative, maxNumBatchedTokens } }, path);
  const session = await openLocalSession(own, samplingOf(options, 0), startStage);
  const stage = startStage("acceptance");
  try {
    const ask = askOf(session, (messages) => seedOf(options.seed, messages));
    let numDone = 0;
    await runAll(heldOut, engine.maxNumSeqs, async ({ prompt }) => {
      await ask(prompt.messages, signal);
      stage.update(`${++numDone} of ${heldOut.length}`);
    });
    const acceptance = acceptanceOf(session.engine.stats().speculation, depth);
    stage.done(`${acceptance.tokensPerStep.toFixed(2)} tokens per step over ${acceptance.numDrafts} drafts`);
    return acceptance;
  } finally {
    await session.close();
  }
}

/** Describes the measurement of acceptance, and the command that serves with the drafter. */
export function drafterNotes(
  options: Pick<DrafterOptions, "kind" | "depth">,
  { acceptance, numHeldOut, outPath }: FittedDrafter,
): readonly [how: string, use: string] {
  const how = `Greedy answers to ${numHeldOut} held-out prompts: ${acceptance.numDrafts} drafts of up to ${options.depth} tokens, ${acceptance.tokensPerStep.toFixed(2)} tokens per step of the model; a position counts if all before it were accepted.`;
  const use = `To serve with it: --speculative-config '${JSON.stringify({ method: methodOf(options), model: outPath })}'`;
  return [how, use];
}

/** Shares by position, in percent. */
export const acceptedShares = ({ byPosition }: MeasuredAcceptance): string[] =>
  byPosition.map((share) => `${(100 * share).toFixed(1)} %`);

function writeReport(options: DrafterOptions, fitted: FittedDrafter): void {
  const { model, outPath, numHeldOut, acceptance, trained } = fitted;
  const { prompts, kind, depth, width, maxTokens, steps, out } = options;
  const report = {
    model,
    kind,
    depth,
    ...(width === undefined ? {} : { width }),
    path: outPath,
    prompts,
    maxTokens,
    steps,
    heldOutLoss: trained.losses.all,
    acceptance,
    numTrained: trained.numUsed,
    numHeldOut,
    machine: machineInfo(),
    versions: versions(),
  };
  const shown = acceptedShares(acceptance);
  const [how, use] = drafterNotes(options, fitted);
  writeFileSync(join(out, `${kind}-report.json`), `${JSON.stringify(report, undefined, 1)}\n`);
  const markdown = [
    `# ${kind === "draft" ? "Draft model" : `Heads (${kind}${width === undefined ? "" : ` of width ${width}`})`} for ${model}`,
    "",
    `| position | ${shown.map((_, i) => i + 1).join(" | ")} |`,
    `|---|${shown.map(() => "---|").join("")}`,
    `| accepted | ${shown.join(" | ")} |`,
    "",
    how,
    "",
    use,
  ];
  writeFileSync(join(out, `${kind}-report.md`), `${markdown.join("\n")}\n`);
}
