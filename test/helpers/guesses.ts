/** What trained heads guess after given tokens, step by step as the engine computes them. */

import type { ActivationDtype, Backend } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { buildParts, type EngineParts } from "../../src/engine/engine-parts.js";
import { createHeadNetwork } from "../../src/engine/speculative/create-head-network.js";
import type { Draft } from "../../src/engine/speculative/drafter.js";
import { isEagle3Folder, readEagle3 } from "../../src/engine/speculative/eagle3-folder.js";
import { createEagle3Layer } from "../../src/engine/speculative/eagle3-layer.js";
import type { HeadsTarget } from "../../src/engine/speculative/head-network.js";
import { readHeads } from "../../src/engine/speculative/heads-file.js";
import { LayerDrafter, maxHeadRows } from "../../src/engine/speculative/layer-drafter.js";
import { isMedusaFolder, readMedusa } from "../../src/engine/speculative/medusa-folder.js";
import { createMedusaOfHub } from "../../src/engine/speculative/medusa-network.js";
import { createMtpLayer } from "../../src/engine/speculative/mtp-layer.js";
import { TrainedHeads } from "../../src/engine/speculative/trained-heads.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { layOutStep } from "../../src/engine/step-layout.js";
import { openModel } from "../../src/model/open-model.js";
import { GREEDY } from "./engine-requests.js";

interface GuessRequest {
  readonly ids: readonly number[];
  /** Tokens whose hidden states the heads did not see. */
  readonly numSkipped?: number;
  /** Rows of a step. */
  readonly chunk?: number;
  /** Tokens of the prompt; those after it come one by one, or by drafts. */
  readonly numPrompt?: number;
  /** Each step after the prompt checks a draft of so many tokens that are right and one that is not. */
  readonly numRight?: number;
  /** Each step after the prompt checks a token that is wrong, and as alternatives another one and the right one. */
  readonly byAlternative?: true;
  /** No more guesses are wanted after so many. */
  readonly numGuesses?: number;
  readonly stopTokenIds?: readonly number[];
}

/** A sequence's part of a step: new tokens, and a draft that begins with those that are right. */
interface StepPart {
  readonly sequence: Sequence;
  readonly ids: readonly number[];
  readonly numNewTokens: number;
  readonly right: readonly number[];
  /** The last alternative comes true. */
  readonly byAlternative?: boolean;
}

/** Guesses at what follows each of the texts, all together. */
export async function guessesAfter(
  modelPath: string,
  headsPath: string,
  requests: readonly GuessRequest[],
  numTokens: number,
): Promise<readonly (readonly number[])[]> {
  const drafts = await draftsAfter(modelPath, headsPath, requests, numTokens);
  return drafts.map(({ tokens }) => [...tokens]);
}

/**
 * As guessesAfter, with the probability of each guess.
 * @param headsPath a GGUF file, or a folder of heads from the hub; undefined: the model's own layer drafts
 */
export async function draftsAfter(
  modelPath: string,
  headsPath: string | undefined,
  requests: readonly GuessRequest[],
  numTokens: number,
  activationDtype: ActivationDtype = "auto",
): Promise<readonly Draft[]> {
  const backend = createCpuBackend({ numThreads: 1, activationDtype });
  const silent = { progress: () => {}, note: () => {} };
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 24, maxNumSeqs: 4 };
  try {
    const model = openModel(modelPath);
    const method = headsPath === undefined ? "mtp" : options.speculative.method;
    const speculative = { ...options.speculative, method, draftModelPath: headsPath };
    const parts = await buildParts(model, { ...options, speculative, kvCacheDtype: "f32" }, backend, silent);
    const { transformer, batch, weights, kv } = parts;
    const target = { config: model.config, weights, transformer, batch, kv };
    const heads =
      headsPath === undefined
        ? await openMtp(parts, target, options.maxNumSeqs, backend)
        : await openHeads(headsPath, target, options.maxNumSeqs, backend);
    const compute = async (step: readonly StepPart[], isSeen: boolean): Promise<void> => {
      const { sequences } = layOutStep(parts, step, 0);
      await parts.forks.fill();
      if (isSeen) await heads.tapHidden(step, true);
      await parts.transformer.forward(parts.sampler.buffers);
      if (batch.numHiddenTaps > 0) await parts.transformer.readTapped();
      for (const [index, { sequence, ids, numNewTokens, right, byAlternative }] of step.entries()) {
        if (byAlternative === true) parts.forks.keep(sequences[index]!.firstFork + sequence.alternatives.length - 1);
        sequence.alternatives = [];
        sequence.numDraftTokens = 0;
        sequence.numComputedTokens += numNewTokens + right.length;
        // As if they had been sampled.
        while (sequence.numTokens <= sequence.numComputedTokens) sequence.append(ids[sequence.numTokens]!);
        parts.states?.settle(sequence);
      }
      await parts.forks.copyKeptBack();
      if (isSeen) heads.takeHidden();
    };
    /** What the last step computes, of all texts together. */
    const last: StepPart[] = [];
    for (const [seat, request] of requests.entries()) {
      const { ids, numSkipped = 0, chunk = ids.length, numPrompt = ids.length - 1, byAlternative } = request;
      const numRight = byAlternative === true ? 1 : request.numRight;
      const { stopTokenIds = [] } = request;
      const sampling = { ...GREEDY, maxTokens: 1000, stopTokenIds };
      const engineRequest = { promptIds: Int32Array.from(ids.slice(0, numPrompt)), sampling };
      const sequence = new Sequence(seat, engineRequest, parts.numGroups, 0);
      Object.assign(sequence, { seat, numAdmissions: 1 });
      parts.kv.ensureCapacity(sequence, ids.length);
      if (numSkipped > 0) await compute([{ sequence, ids, numNewTokens: numSkipped, right: [] }], false);
      for (;;) {
        const { numTokens, numComputedTokens } = sequence;
        const numNewTokens = Math.min(numTokens - numComputedTokens, chunk);
        const isDecoding = numRight !== undefined && numComputedTokens === numTokens - 1;
        const right = isDecoding ? ids.slice(numTokens, Math.min(numTokens + numRight, ids.length - 1)) : [];
        if (isDecoding) sequence.setDraft([...right, (ids[numTokens + right.length]! + 1) % 97]);
        if (isDecoding && byAlternative === true && right.length === 1) {
          const [token] = right as [number];
          sequence.setDraft([(token + 1) % 97]);
          sequence.alternatives = [(token + 2) % 97, token];
        }
        const part = { sequence, ids, numNewTokens, right, byAlternative: sequence.alternatives.length > 0 };
        if (numComputedTokens + numNewTokens + right.length === ids.length - 1) {
          last.push(part);
          break;
        }
        await compute([part], true);
      }
    }
    await compute(last, true);
    const sequences = last.map(({ sequence }) => sequence);
    const ready = await heads.ready(sequences);
    const numMade = requests.map(() => 0);
    const goesOn = (index: number) => ++numMade[index]! < (requests[index]!.numGuesses ?? numTokens);
    return await heads.propose(ready, numTokens, goesOn);
  } finally {
    backend.destroy();
  }
}

function openMtp(
  { mtp }: EngineParts,
  target: HeadsTarget,
  maxNumSeqs: number,
  backend: Backend,
): Promise<LayerDrafter> {
  const layer = createMtpLayer(mtp!, target, maxHeadRows(target, maxNumSeqs), backend);
  const capacity = { maxModelLen: target.config.contextLength, maxNumSeqs, kvType: "f32", alternatives: 2 } as const;
  return LayerDrafter.create(layer, target, capacity, backend);
}

async function openHeads(
  path: string,
  target: HeadsTarget,
  maxNumSeqs: number,
  backend: Backend,
): Promise<TrainedHeads | LayerDrafter> {
  const report = { progress: () => {}, note: () => {} };
  if (isEagle3Folder(path)) {
    const capacity = { maxModelLen: target.config.contextLength, maxNumSeqs, kvType: "f32", alternatives: 2 } as const;
    const maxRows = maxHeadRows(target, maxNumSeqs);
    const folder = readEagle3(path, "eagle3", target.config);
    const layer = await createEagle3Layer(folder, target, maxRows, backend, report);
    return LayerDrafter.create(layer, target, capacity, backend);
  }
  const place = { backend, maxRows: maxNumSeqs, report };
  if (isMedusaFolder(path)) {
    const network = await createMedusaOfHub(readMedusa(path, "medusa", target.config), target, place);
    return TrainedHeads.create(network, target, maxNumSeqs, backend);
  }
  const network = await createHeadNetwork(readHeads(path, "heads", target.config), target, place);
  return TrainedHeads.create(network, target, maxNumSeqs, backend);
}
