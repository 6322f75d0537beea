/** What a machine's memory and arithmetic allow a server at most: the longer of reading everything once a step and of making every product, with nothing lost in between. */
import { median } from "../../core/statistics.js";
import type { Ceilings, ModelWork } from "../results/schema.js";

export interface MeanTraffic {
  /** Sequences that decode together, and so share each reading of the weights. */
  readonly concurrency: number;
  /** Of a request, on average; prompt tokens that the cache had are not among the computed ones. */
  readonly promptTokens: number;
  readonly computedPromptTokens: number;
  readonly outputTokens: number;
}

/** The mix that attention's products are taken to have. */
export const ATTENTION_MIX = "float";

/** Output tokens per second at most, a token a step for each sequence: drafts that are accepted can exceed it. Undefined where a ceiling was not measured. */
export function rooflineTokensPerS(work: ModelWork, { readings }: Ceilings, traffic: MeanTraffic): number | undefined {
  const { concurrency, promptTokens, computedPromptTokens, outputTokens } = traffic;
  if (readings.length === 0 || outputTokens === 0) return undefined;
  const middle = (value: (reading: Ceilings["readings"][number]) => number) => median(readings.map(value));
  const secondsOf = (macs: Readonly<Record<string, number>>) =>
    Object.entries(macs).reduce((sum, [mix, count]) => sum + count / middle(({ macsPerS }) => macsPerS[mix] ?? 0), 0);
  const looked = (from: number, to: number) => lookedAt(work, to) - lookedAt(work, from);
  const outputPairs = looked(promptTokens, promptTokens + outputTokens);
  // What a prompt's tokens attend to grows from what was cached to the whole prompt.
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

/** Tokens that those of a sequence from its first one on have looked at, the mean of all layers: n tokens n² / 2, beyond a window w only w each. */
function lookedAt({ windows = [] }: ModelWork, numTokens: number): number {
  const beyond = ({ tokens, layerShare }: NonNullable<ModelWork["windows"]>[number]) =>
    (layerShare * Math.max(0, numTokens - tokens) ** 2) / 2;
  return windows.reduce((sum, window) => sum - beyond(window), numTokens ** 2 / 2);
}
