/**
 * Messages between the main thread and the engine's thread. One message per step carries the outputs of all requests.
 */
import type { ErrorRecord } from "../core/errors.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineOutput, FinishReason } from "./api/output.js";
import type { EngineRequest } from "./api/request.js";
import type { EngineInfo, EngineStats } from "./api/stats.js";
import type { StepOutput } from "./engine-core.js";
import { type PackedLogprobs, packLogprobs, unpackLogprobs } from "./packed-logprobs.js";

export interface WorkerData {
  readonly options: EngineOptions;
  /** Shared memory of pulse.ts. */
  readonly pulse: SharedArrayBuffer;
}

export type ToWorker =
  | { readonly kind: "add"; readonly requestId: number; readonly request: EngineRequest }
  | { readonly kind: "abort"; readonly requestId: number }
  | { readonly kind: "stop" };

export type FromWorker =
  | { readonly kind: "progress"; readonly stage: string; readonly fraction?: number }
  | { readonly kind: "note"; readonly text: string }
  | { readonly kind: "ready"; readonly info: EngineInfo; readonly stats: EngineStats }
  | {
      readonly kind: "step";
      readonly outputs: PackedOutputs;
      readonly failures: readonly Failure[];
      readonly stats: EngineStats;
      /** Blocks that the prefix cache gained and lost, encoded as CachedBlocks reads them; absent: none. */
      readonly cacheChanges?: Float64Array;
    }
  /** The engine has stopped, and its thread cannot end. */
  | { readonly kind: "stuck" }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** A request that ended with an error in place of a finish reason. */
interface Failure {
  readonly requestId: number;
  readonly error: ErrorRecord;
}

/** Outputs of one step. Most are a single token, sent as numbers; the others travel as objects beside them. */
interface PackedOutputs {
  /**
   * [requestId, tokenId, finish code, stopTokenId, numCachedTokens, queueMs, numEvictedTokens] per output; tokenId −1:
   * see `whole`
   */
  readonly words: Float64Array;
  /** Outputs that carry log-probabilities, or no token, by index. */
  readonly whole: ReadonlyMap<number, WholeOutput>;
}

type WholeOutput = Omit<EngineOutput, "promptLogprobs"> & { readonly promptLogprobs?: PackedLogprobs };

const WORDS_PER_OUTPUT = 7;
const FINISH_CODES: readonly (FinishReason | undefined)[] = [undefined, "stop", "length"];

export function packOutputs(outputs: readonly StepOutput[]): PackedOutputs {
  const words = new Float64Array(outputs.length * WORDS_PER_OUTPUT);
  const whole = new Map<number, WholeOutput>();
  // Each step of each sequence passes here: a plain output allocates nothing.
  let at = 0;
  for (let index = 0; index < outputs.length; index++, at += WORDS_PER_OUTPUT) {
    const { requestId, output } = outputs[index]!;
    const isPlain =
      output.tokenIds.length === 1 && output.logprobs === undefined && output.promptLogprobs === undefined;
    if (!isPlain) whole.set(index, packWhole(output));
    words[at] = requestId;
    words[at + 1] = isPlain ? output.tokenIds[0]! : -1;
    words[at + 2] = FINISH_CODES.indexOf(output.finishReason);
    words[at + 3] = output.stopTokenId ?? -1;
    words[at + 4] = output.numCachedTokens;
    words[at + 5] = output.queueMs;
    words[at + 6] = output.numEvictedTokens ?? 0;
  }
  return { words, whole };
}

function packWhole({ promptLogprobs, ...others }: EngineOutput): WholeOutput {
  return promptLogprobs === undefined ? others : { ...others, promptLogprobs: packLogprobs(promptLogprobs) };
}

function unpackWhole({ promptLogprobs, ...others }: WholeOutput): EngineOutput {
  return promptLogprobs === undefined ? others : { ...others, promptLogprobs: unpackLogprobs(promptLogprobs) };
}

export function unpackOutputs({ words, whole }: PackedOutputs): StepOutput[] {
  const outputs: StepOutput[] = [];
  for (let at = 0; at < words.length; at += WORDS_PER_OUTPUT) {
    const known = whole.size === 0 ? undefined : whole.get(at / WORDS_PER_OUTPUT);
    outputs.push({
      requestId: words[at]!,
      output: known === undefined ? plainOutput(words, at) : unpackWhole(known),
    });
  }
  return outputs;
}

function plainOutput(words: Float64Array, at: number): EngineOutput {
  const plain = { tokenIds: [words[at + 1]!], numCachedTokens: words[at + 4]!, queueMs: words[at + 5]! };
  const numEvictedTokens = words[at + 6]!;
  const output = numEvictedTokens === 0 ? plain : { ...plain, numEvictedTokens };
  const finishReason = FINISH_CODES[words[at + 2]!];
  if (finishReason === undefined) return output;
  const stopTokenId = words[at + 3]!;
  return stopTokenId < 0 ? { ...output, finishReason } : { ...output, finishReason, stopTokenId };
}
