/** Builds what drafts: the drafter that the options name, a draft model or heads, and the speculator that weighs their guesses. */

import type { Backend, LoadReport } from "../../backend/backend.js";
import type { ModelConfig } from "../../model/config.js";
import type { EngineOptions } from "../api.js";
import type { EngineParts } from "../engine-parts.js";
import type { StepCost } from "../step-cost.js";
import { HEAD_KINDS, isModelMethod } from "./config.js";
import type { BatchDrafter, Drafter } from "./drafter.js";
import { createHeadNetwork } from "./head-network.js";
import { isHeadsFile, readHeads } from "./heads-file.js";
import { loadDraftModel } from "./load-draft-model.js";
import { TextLookup } from "./lookup.js";
import { Speculator } from "./speculator.js";
import { TrainedHeads } from "./trained-heads.js";

interface SpeculatorSource {
  readonly target: ModelConfig;
  readonly options: EngineOptions;
  readonly backend: Backend;
  readonly report: LoadReport;
  /** Instead of the one that the options name. */
  readonly drafter: Drafter | undefined;
}

/** @returns undefined where the options ask for none. Throws what opening a draft model or heads throws. */
export async function createSpeculator(
  parts: EngineParts,
  cost: StepCost | undefined,
  source: SpeculatorSource,
): Promise<Speculator | undefined> {
  const { speculative } = source.options;
  if (cost === undefined || speculative.method === "none") return undefined;
  const { draftModelPath: path } = speculative;
  const model = path === undefined ? undefined : await openBatchDrafter(path, parts, source);
  const lookup = isModelMethod(speculative.method) ? undefined : new TextLookup(speculative);
  return new Speculator(source.drafter ?? lookup, cost, speculative, model);
}

/** Heads where the method says so, or where it leaves that to the file. */
async function openBatchDrafter(path: string, parts: EngineParts, source: SpeculatorSource): Promise<BatchDrafter> {
  const { target, options, backend, report } = source;
  const { method } = options.speculative;
  const { maxModelLen } = parts.info;
  const isHeads = ["heads", ...HEAD_KINDS].includes(method) || (method === "auto" && isHeadsFile(path));
  if (!isHeads) {
    return loadDraftModel(path, target, options, { maxModelLen, numBlocks: parts.kv.numBlocks }, backend, report);
  }
  const model = { config: target, weights: parts.weights, transformer: parts.transformer, batch: parts.batch };
  const { maxNumSeqs } = options;
  const place = { backend, maxRows: maxNumSeqs, report };
  const network = await createHeadNetwork(readHeads(path, method, target), model, place);
  return TrainedHeads.create(network, model, maxNumSeqs, backend);
}
