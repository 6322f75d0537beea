/** What trained heads guess after given tokens, step by step as the engine computes them. */

import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { buildParts } from "../../src/engine/engine-parts.js";
import { createHeadNetwork } from "../../src/engine/speculative/head-network.js";
import { readHeads } from "../../src/engine/speculative/heads-file.js";
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
  /** No more guesses are wanted after so many. */
  readonly numGuesses?: number;
  readonly stopTokenIds?: readonly number[];
}

/** Guesses at what follows each of the texts, all together. */
export async function guessesAfter(
  modelPath: string,
  headsPath: string,
  requests: readonly GuessRequest[],
  numTokens: number,
): Promise<readonly (readonly number[])[]> {
  const backend = createCpuBackend({ numThreads: 1 });
  const silent = { progress: () => {}, note: () => {} };
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 24, maxNumSeqs: 4 };
  try {
    const model = openModel(modelPath);
    const parts = await buildParts(model, { ...options, kvCacheDtype: "f32" }, backend, silent);
    const { transformer, batch, weights } = parts;
    const target = { config: model.config, weights, transformer, batch };
    const place = { backend, maxRows: options.maxNumSeqs, report: silent };
    const network = await createHeadNetwork(readHeads(headsPath, "heads", model.config), target, place);
    const heads = await TrainedHeads.create(network, target, options.maxNumSeqs, backend);
    const sequences: Sequence[] = [];
    for (const [seat, request] of requests.entries()) {
      const { ids, numSkipped = 0, chunk = ids.length, numPrompt = ids.length - 1, numRight } = request;
      const { stopTokenIds = [] } = request;
      const sampling = { ...GREEDY, maxTokens: 1000, stopTokenIds };
      const engineRequest = { promptIds: Int32Array.from(ids.slice(0, numPrompt)), sampling };
      const sequence = new Sequence(seat, engineRequest, parts.numGroups, 0);
      Object.assign(sequence, { seat, numAdmissions: 1 });
      parts.kv.ensureCapacity(sequence, ids.length);
      const compute = async (numNewTokens: number, numRight: number, isSeen: boolean): Promise<void> => {
        const scheduled = [{ sequence, numNewTokens }];
        layOutStep(parts, scheduled, 0);
        if (isSeen) heads.tapHidden(scheduled);
        await parts.transformer.forward(parts.sampler.buffers);
        await parts.transformer.readTapped();
        sequence.numDraftTokens = 0;
        sequence.numComputedTokens += numNewTokens + numRight;
        // As if they had been sampled.
        while (sequence.numTokens <= sequence.numComputedTokens) sequence.append(ids[sequence.numTokens]!);
        if (isSeen) heads.takeHidden();
      };
      if (numSkipped > 0) await compute(numSkipped, 0, false);
      while (sequence.numComputedTokens < ids.length - 1) {
        const { numTokens, numComputedTokens } = sequence;
        const numNewTokens = Math.min(numTokens - numComputedTokens, chunk);
        const isDecoding = numRight !== undefined && numComputedTokens === numTokens - 1;
        const right = isDecoding ? ids.slice(numTokens, Math.min(numTokens + numRight, ids.length - 1)) : [];
        if (isDecoding) sequence.setDraft([...right, (ids[numTokens + right.length]! + 1) % 97]);
        await compute(numNewTokens, right.length, true);
      }
      sequences.push(sequence);
    }
    const ready = await heads.ready(sequences);
    const numMade = requests.map(() => 0);
    const goesOn = (index: number) => ++numMade[index]! < (requests[index]!.numGuesses ?? numTokens);
    return (await heads.propose(ready, numTokens, goesOn)).map(({ tokens }) => [...tokens]);
  } finally {
    backend.destroy();
  }
}
