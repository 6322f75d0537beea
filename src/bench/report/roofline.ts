/**
 * The roofline of a server: the longer of the time to read all bytes of a step and the time for all multiply-adds,
 * without any overhead.
 */
import { median } from "../../core/statistics.js";
import type { Ceilings, ModelWork } from "../results/schema.js";

export interface MeanTraffic {
  /** Sequences that decode together and share each read of the weights. */
  readonly concurrency: number;
  /** Mean tokens of a request; computed prompt tokens exclude those from the cache. */
  readonly promptTokens: number;
  readonly computedPromptTokens: number;
  readonly outputTokens: number;
}

/** The instruction mix assumed for attention. */
export const ATTENTION_MIX = "float";

/**
 * Highest output tokens per second with one token per step for each sequence, which accepted drafts can exceed.
 * Undefined without a needed ceiling.
 */
export function rooflineTokensPerS(work: ModelWork, { readings }: Ceilings, traffic: MeanTraffic): number | undefined {
  const { concurrency, promptTokens, computedPromptTokens, outputTokens } = traffic;
  if (readings.length === 0 || outputTokens === 0) return undefined;
  const middle = (value: (reading: Ceilings["readings"][number]) => number) => median(readings.map(value));
  const secondsOf = (macs: Readonly<Record<string, number>>) =>
    Object.entries(macs).reduce((sum, [mix, count]) => sum + count / middle(({ macsPerS }) => macsPerS[mix] ?? 0), 0);
  const looked = (from: number, to: number) => lookedAt(work, to) - lookedAt(work, from);
  const outputPairs = looked(promptTokens, promptTokens + outputTokens);
  // A prompt's computed tokens attend to the cached part and to all earlier tokens.
  const promptPairs = looked(promptTokens - computedPromptTokens, promptTokens);
  const attention = work.attentionMacs * (outputPairs + promptPairs);
  const arithmetic =
    (computedPromptTokens + outputTokens) * secondsOf(work.layerMacs) +
    outputTokens * secondsOf(work.outputMacs) +
    secondsOf({ [ATTENTION_MIX]: attention });
  const bytes = (outputTokens * work.weightBytes) / concurrency + outputPairs * work.kvBytesPerToken;
  const seconds = Math.max(arithmetic, bytes / middle(({ bytesPerS }) => bytesPerS));
  return Number.isFinite(seconds) ? outputTokens / seconds : undefined;
}

/**
 * Tokens attended to by a sequence's first numTokens tokens, mean over layers: n² / 2, and only w per token beyond a
 * window w.
 */
function lookedAt({ windows = [] }: ModelWork, numTokens: number): number {
  const beyond = ({ tokens, layerShare }: NonNullable<ModelWork["windows"]>[number]) =>
    (layerShare * Math.max(0, numTokens - tokens) ** 2) / 2;
  return windows.reduce((sum, window) => sum - beyond(window), numTokens ** 2 / 2);
}
