/** Builds what drafts: the drafters that the options name, a draft model among them, and the speculator that weighs their guesses. */
import type { Device } from "../../kernels/kernels.js";
import type { EngineOptions } from "../api.js";
import type { EngineParts } from "../engine-parts.js";
import type { ModelConfig } from "../model/config.js";
import type { LoadReport } from "../model/weight-packer.js";
import type { StepCost } from "../step-cost.js";
import type { Drafter } from "./drafter.js";
import { loadDraftModel } from "./load-draft-model.js";
import { draftersOf, Speculator } from "./speculator.js";

export interface SpeculatorSource {
  readonly target: ModelConfig;
  readonly options: EngineOptions;
  readonly device: Device;
  readonly report: LoadReport;
  /** Instead of those that the options name. */
  readonly drafters: readonly Drafter[] | undefined;
}

/** @returns undefined where the options ask for none. Throws what opening a draft model throws. */
export function createSpeculator(
  { info, kv }: EngineParts,
  cost: StepCost | undefined,
  { target, options, device, report, drafters }: SpeculatorSource,
): Speculator | undefined {
  const { speculative } = options;
  if (cost === undefined || speculative.method === "none") return undefined;
  const room = { maxModelLen: info.maxModelLen, numBlocks: kv.numBlocks };
  const { draftModelPath: path } = speculative;
  const model = path === undefined ? undefined : loadDraftModel(path, target, options, room, device, report);
  return new Speculator(drafters ?? draftersOf(speculative), cost, speculative, model);
}
