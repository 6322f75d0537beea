/** Builds the speculator and its sources of drafts: the drafter that the options name, and a draft model or heads. */

import type { Backend, LoadReport } from "../../backend/backend.js";
import type { EngineOptions } from "../api/options.js";
import { HEAD_METHODS, isModelMethod } from "../api/speculative-config.js";
import type { StepCost } from "../step/step-cost.js";
import { createHeadNetwork } from "./create-head-network.js";
import type { BatchDrafter, Drafter } from "./drafter.js";
import { isEagle3Folder, readEagle3 } from "./eagle3-folder.js";
import { createEagle3Layer } from "./eagle3-layer.js";
import type { HeadsTarget } from "./head-network.js";
import { isHeadsFile, readHeads } from "./heads-file.js";
import { LayerDrafter, maxHeadRows } from "./layer-drafter.js";
import { loadDraftModel } from "./load-draft-model.js";
import { TextLookup } from "./lookup.js";
import { isMedusaFolder, readMedusa } from "./medusa-folder.js";
import { createMedusaOfHub } from "./medusa-network.js";
import { createMtpLayer } from "./mtp-layer.js";
import type { MtpWeights } from "./mtp-weights.js";
import { Speculator } from "./speculator.js";
import { TrainedHeads } from "./trained-heads.js";

/** The model to guess for, and the parts of its engine that drafters share. */
interface SpeculatorSource {
  readonly target: HeadsTarget;
  /** The model's own layer for multi-token prediction, where it is to draft. */
  readonly mtp: MtpWeights | undefined;
  /** Tokens of the longest sequence. */
  readonly maxModelLen: number;
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
  const model = path === undefined ? await openMtp(source) : await openBatchDrafter(path, source);
  const drafts = isModelMethod(speculative.method) || speculative.method === "mtp";
  const lookup = drafts ? undefined : new TextLookup(speculative);
  return new Speculator(source.drafter ?? lookup, cost, speculative, model);
}

async function openMtp({ mtp, target, ...source }: SpeculatorSource): Promise<BatchDrafter | undefined> {
  if (mtp === undefined) return undefined;
  const { options, backend } = source;
  const layer = createMtpLayer(mtp, target, maxHeadRows(target, options.maxNumSeqs), backend);
  return LayerDrafter.create(layer, target, capacityOf(source), backend);
}

const capacityOf = ({ maxModelLen, options }: Pick<SpeculatorSource, "maxModelLen" | "options">) => ({
  maxModelLen,
  maxNumSeqs: options.maxNumSeqs,
  kvType: options.kvCacheDtype,
  alternatives: options.speculative.alternatives,
});

/** Heads where the method names them; under `auto` the contents decide. */
async function openBatchDrafter(path: string, source: SpeculatorSource): Promise<BatchDrafter> {
  const { target, maxModelLen, options, backend, report } = source;
  const { method } = options.speculative;
  const { maxNumSeqs } = options;
  const isNamed = (HEAD_METHODS as readonly string[]).includes(method);
  const isEagle3 = isEagle3Folder(path);
  const place = { backend, maxRows: maxNumSeqs, report };
  if (method === "eagle3" || (isEagle3 && (isNamed || method === "auto"))) {
    const folder = readEagle3(path, method, target.config);
    const layer = await createEagle3Layer(folder, target, maxHeadRows(target, maxNumSeqs), backend, report);
    return LayerDrafter.create(layer, target, capacityOf(source), backend);
  }
  if ((isNamed || method === "auto") && isMedusaFolder(path)) {
    const folder = readMedusa(path, method, target.config);
    return TrainedHeads.create(await createMedusaOfHub(folder, target, place), target, maxNumSeqs, backend);
  }
  if (!isNamed && (method !== "auto" || !isHeadsFile(path))) {
    const kv = { maxModelLen, numBlocks: target.kv.numBlocks };
    return loadDraftModel(path, target.config, options, kv, backend, report);
  }
  const network = await createHeadNetwork(readHeads(path, method, target.config), target, place);
  return TrainedHeads.create(network, target, maxNumSeqs, backend);
}
