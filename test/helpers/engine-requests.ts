/** Builds engine requests for tests, and runs an EngineCore to the end in process. */
import type { EngineOutput, TokenLogprob } from "../../src/engine/api/output.js";
import type { EngineRequest, SamplingParams } from "../../src/engine/api/request.js";
import { GREEDY_SAMPLING } from "../../src/engine/api/request.js";
import type { EngineCore } from "../../src/engine/engine-core.js";
import type { Pooling } from "../../src/model/description/pooling.js";

export const GREEDY: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 16 };

export function request(promptIds: ArrayLike<number>, sampling: Partial<SamplingParams> = {}): EngineRequest {
  return { promptIds: Int32Array.from(promptIds), sampling: { ...GREEDY, ...sampling } };
}

export function poolingRequest(promptIds: ArrayLike<number>, pooling: Pooling): EngineRequest {
  return { ...request(promptIds, { maxTokens: 0 }), pooling };
}

export interface Completion {
  readonly tokenIds: number[];
  readonly logprobs: TokenLogprob[];
  promptLogprobs: readonly (TokenLogprob | null)[] | undefined;
  pooled: Float64Array | undefined;
  finishReason: string | undefined;
  numCachedTokens: number;
}

/** Adds what a step reported to the completions by request id. */
export function collect(completions: Map<number, Completion>, requestId: number, output: EngineOutput): void {
  let completion = completions.get(requestId);
  if (completion === undefined) {
    completion = {
      tokenIds: [],
      logprobs: [],
      promptLogprobs: undefined,
      pooled: undefined,
      finishReason: undefined,
      numCachedTokens: 0,
    };
    completions.set(requestId, completion);
  }
  completion.tokenIds.push(...output.tokenIds);
  completion.logprobs.push(...(output.logprobs ?? []));
  completion.promptLogprobs ??= output.promptLogprobs;
  completion.pooled ??= output.pooled;
  completion.finishReason ??= output.finishReason;
  completion.numCachedTokens = output.numCachedTokens;
}

/** Runs one request alone to its end. */
export async function runAlone(core: EngineCore, engineRequest: EngineRequest): Promise<Completion> {
  const completions = new Map<number, Completion>();
  core.add(1, engineRequest);
  while (core.hasWork) for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
  return completions.get(1)!;
}

/** One after the other: an engine computes one test's requests at a time. */
export async function inTurn<Item, Result>(
  items: readonly Item[],
  run: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (const [index, item] of items.entries()) results.push(await run(item, index));
  return results;
}
