/**
 * Computes steps while there are no requests: to measure step costs, and to fingerprint the results of this build of
 * the model.
 */
import type { Backend } from "../backend/backend.js";
import type { EngineOptions } from "./api/options.js";
import { type EngineRequest, GREEDY_SAMPLING } from "./api/request.js";
import type { EngineParts } from "./engine-parts.js";
import { Sequence } from "./step/sequence.js";
import { fastestMs, MAX_MEASURED_ROWS, StepCost } from "./step/step-cost.js";
import { layOutStep } from "./step-layout.js";

/** @returns undefined where no option needs step costs: measuring takes as long as computing a hundred tokens */
export async function measureStepCost(
  parts: EngineParts,
  { speculative, maxStepMs, blockSize }: EngineOptions,
  { stepCostRows }: Backend,
): Promise<StepCost | undefined> {
  if (speculative.method === "none" && maxStepMs === 0) return undefined;
  const { maxRows, maxLogitRows, tableStride } = parts.batch.capacity;
  const mostRows = Math.min(maxRows, maxLogitRows, tableStride * blockSize, parts.kv.numBlocks * blockSize);
  const maxMeasured = Math.min(MAX_MEASURED_ROWS, mostRows);
  return StepCost.measured((numRows) => measureStep(parts, numRows), maxMeasured, stepCostRows);
}

/** @returns milliseconds of a step of `numRows` rows: one token and a draft */
async function measureStep(parts: EngineParts, numRows: number): Promise<number> {
  return await rehearse(parts, [0], numRows - 1, () =>
    fastestMs(() => parts.transformer.forward(parts.sampler.buffers)),
  );
}

/** Fingerprint of model, build and machine: keys and values of a fixed text, and its likeliest next token. */
export async function knownAnswer(parts: EngineParts): Promise<Uint8Array> {
  const { transformer, caches, batch, sampler, info } = parts;
  const numTokens = Math.min(info.blockSize, batch.capacity.maxRows);
  const ids = variedIds(numTokens, info.vocabSize);
  const answer = new Uint8Array(caches.blockBytes + 4);
  await rehearse(parts, ids, 0, async (blocks) => {
    await transformer.forward(sampler.buffers);
    await caches.copyOut(blocks, answer);
    new DataView(answer.buffer).setInt32(caches.blockBytes, sampler.tokenId(0) ?? -1);
  });
  return answer;
}

/**
 * Calls `read` with the logits [vocabSize] after each id, in order; the next call overwrites the array. For
 * measurements, while there are no requests. The ids must fit the context and the KV memory.
 * @param numDecoded ids at the end that are decoded one by one, as an answer to the others; if there are some, the
 * logits before them are read only from the last one on
 */
export async function textLogits(
  parts: EngineParts,
  ids: readonly number[],
  read: (logits: Float32Array) => void | Promise<void>,
  numDecoded: number,
): Promise<void> {
  const { batch, transformer, info } = parts;
  const numPrompt = ids.length - numDecoded;
  const terms = numDecoded === 0 ? { numPromptLogprobs: 0 } : {};
  const sampling = { ...GREEDY_SAMPLING, maxTokens: numDecoded + 1, ...terms };
  const logits = new Float32Array(info.vocabSize);
  const request = { promptIds: Int32Array.from(ids.slice(0, numPrompt)), sampling };
  const readAll = async () => {
    for (let row = 0; row < batch.numLogitRows; row++) {
      await transformer.readLogits(row, logits);
      await read(logits);
    }
  };
  await computeText(parts, request, batch.capacity.maxLogitRows, readAll, ids.slice(numPrompt));
}

/**
 * Computes a text alone, while there are no requests. It must fit the context and the KV memory.
 * @param mostRows of a step
 * @param onStep reads a step's results
 * @param answer tokens after the request's, which are decoded one by one
 */
export async function computeText(
  parts: EngineParts,
  request: EngineRequest,
  mostRows: number,
  onStep: (numRows: number) => Promise<void>,
  answer: readonly number[] = [],
): Promise<void> {
  const { batch, kv, transformer, sampler } = parts;
  const sequence = new Sequence(-1, request, parts.numGroups, 0);
  sequence.seat = 0;
  const left = [...answer];
  for (;;) {
    const { numTokens, numComputedTokens } = sequence;
    const numNewTokens = Math.min(batch.capacity.maxRows, mostRows, numTokens - numComputedTokens);
    if (!kv.ensureCapacity(sequence, numComputedTokens + numNewTokens)) {
      throw new Error(`expected KV memory for ${numTokens} tokens, got less`);
    }
    layOutStep(parts, [{ sequence, numNewTokens }], 0);
    await transformer.forward(sampler.buffers);
    await onStep(numNewTokens);
    sequence.numComputedTokens += numNewTokens;
    kv.publishAndTrim(sequence);
    await parts.evictor?.evictIfDue(sequence);
    if (sequence.numComputedTokens < numTokens) continue;
    const next = left.shift();
    if (next === undefined) break;
    sequence.append(next);
  }
  kv.release(sequence);
}

/**
 * Unlike tokens: where each chooses its own experts, rows of the same one would be measured as cheaper than they are.
 */
const variedIds = (count: number, vocabSize: number): number[] =>
  Array.from({ length: count }, (_, i) => (i * 7919 + 11) % vocabSize);

/**
 * Lays out a step of a made-up sequence with a made-up draft.
 * @param run computes it; gets the sequence's first block of each group
 */
async function rehearse<T>(
  parts: EngineParts,
  promptIds: readonly number[],
  numDraftTokens: number,
  run: (blocks: readonly number[]) => Promise<T>,
): Promise<T> {
  const numTokens = promptIds.length + numDraftTokens;
  const request = { promptIds: Int32Array.from(promptIds), sampling: { ...GREEDY_SAMPLING, maxTokens: numTokens } };
  const sequence = new Sequence(-1, request, parts.numGroups, 0);
  sequence.seat = 0;
  sequence.setDraft(variedIds(numDraftTokens, parts.info.vocabSize));
  parts.kv.ensureCapacity(sequence, numTokens);
  layOutStep(parts, [{ sequence, numNewTokens: promptIds.length }], 0);
  const result = await run(sequence.blockTables.map((table) => table[0]!));
  parts.kv.release(sequence);
  return result;
}
