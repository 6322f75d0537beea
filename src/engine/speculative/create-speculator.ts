/** Builds what drafts: the drafter that the options name, a draft model or heads, and the speculator that weighs their guesses. */

import type { Backend, LoadReport } from "../../backend/backend.js";
import type { EngineOptions } from "../api/options.js";
import { HEAD_KINDS, isModelMethod } from "../api/speculative-config.js";
import type { StepCost } from "../step/step-cost.js";
import type { BatchDrafter, Drafter } from "./drafter.js";
import { createHeadNetwork, type HeadsTarget } from "./head-network.js";
import { isHeadsFile, readHeads } from "./heads-file.js";
import { loadDraftModel } from "./load-draft-model.js";
import { TextLookup } from "./lookup.js";
import { Speculator } from "./speculator.js";
import { TrainedHeads } from "./trained-heads.js";

/** The model to guess for, and the parts of its engine that drafters share. */
interface SpeculatorSource {
  readonly target: HeadsTarget;
  /** Tokens of the longest sequence, and the target's KV blocks: a draft model gets as many. */
  readonly kv: { readonly maxModelLen: number; readonly numBlocks: number };
  readonly options: EngineOptions;
  readonly backend: Backend;
  readonly report: LoadReport;
  /** Replaces the drafter that the options name. */
  readonly drafter: Drafter | undefined;
}

/** @returns undefined where the options ask for no drafts. Throws the errors of opening a draft model or heads. */
export async function createSpeculator(
  cost: StepCost | undefined,
  source: SpeculatorSource,
): Promise<Speculator | undefined> {
  const { speculative } = source.options;
  if (cost === undefined || speculative.method === "none") return undefined;
  const { draftModelPath: path } = speculative;
  const model = path === undefined ? undefined : await openBatchDrafter(path, source);
  const lookup = isModelMethod(speculative.method) ? undefined : new TextLookup(speculative);
  return new Speculator(source.drafter ?? lookup, cost, speculative, model);
}

/** Heads where the method names them; under `auto` the file's contents decide. */
async function openBatchDrafter(path: string, source: SpeculatorSource): Promise<BatchDrafter> {
  const { target, kv, options, backend, report } = source;
  const { method } = options.speculative;
  const isHeads = ["heads", ...HEAD_KINDS].includes(method) || (method === "auto" && isHeadsFile(path));
  if (!isHeads) return loadDraftModel(path, target.config, options, kv, backend, report);
  const { maxNumSeqs } = options;
  const place = { backend, maxRows: maxNumSeqs, report };
  const network = await createHeadNetwork(readHeads(path, method, target.config), target, place);
  return TrainedHeads.create(network, target, maxNumSeqs, backend);
}
