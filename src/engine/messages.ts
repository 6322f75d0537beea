/** Messages between the main thread and the engine's thread. One message per step carries the outputs of all requests. */
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
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** A request that ended with an error in place of a finish reason. */
interface Failure {
  readonly requestId: number;
  readonly error: ErrorRecord;
}

/** Outputs of one step. Most are a single token, sent as numbers; the others travel as objects beside them. */
interface PackedOutputs {
  /** [requestId, tokenId, finish code, stopTokenId, numCachedTokens, queueMs] per output; tokenId −1: see `whole` */
  readonly words: Float64Array;
  /** Outputs that carry log-probabilities, or no token, by index. */
  readonly whole: ReadonlyMap<number, WholeOutput>;
}

type WholeOutput = Omit<EngineOutput, "promptLogprobs"> & { readonly promptLogprobs?: PackedLogprobs };

const WORDS_PER_OUTPUT = 6;
const FINISH_CODES: readonly (FinishReason | undefined)[] = [undefined, "stop", "length"];

export function packOutputs(outputs: readonly StepOutput[]): PackedOutputs {
  const words = new Float64Array(outputs.length * WORDS_PER_OUTPUT);
  const whole = new Map<number, WholeOutput>();
  outputs.forEach(({ requestId, output }, index) => {
    const { promptLogprobs, ...others } = output;
    const isPlain = output.tokenIds.length === 1 && output.logprobs === undefined && promptLogprobs === undefined;
    if (!isPlain) {
      const packed = promptLogprobs === undefined ? {} : { promptLogprobs: packLogprobs(promptLogprobs) };
      whole.set(index, { ...others, ...packed });
    }
    words.set(
      [
        requestId,
        isPlain ? output.tokenIds[0]! : -1,
        FINISH_CODES.indexOf(output.finishReason),
        output.stopTokenId ?? -1,
        output.numCachedTokens,
        output.queueMs,
      ],
      index * WORDS_PER_OUTPUT,
    );
  });
  return { words, whole };
}

export function unpackOutputs(packed: PackedOutputs): StepOutput[] {
  const { words, whole } = packed;
  return Array.from({ length: words.length / WORDS_PER_OUTPUT }, (_, index): StepOutput => {
    const at = index * WORDS_PER_OUTPUT;
    const requestId = words[at]!;
    const known = whole.get(index);
    if (known !== undefined) {
      const { promptLogprobs, ...others } = known;
      const unpacked = promptLogprobs === undefined ? {} : { promptLogprobs: unpackLogprobs(promptLogprobs) };
      return { requestId, output: { ...others, ...unpacked } };
    }
    const finishReason = FINISH_CODES[words[at + 2]!];
    const stopTokenId = words[at + 3]!;
    return {
      requestId,
      output: {
        tokenIds: [words[at + 1]!],
        numCachedTokens: words[at + 4]!,
        queueMs: words[at + 5]!,
        ...(finishReason === undefined ? {} : { finishReason }),
        ...(stopTokenId < 0 ? {} : { stopTokenId }),
      },
    };
  });
}
