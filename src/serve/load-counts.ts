/** An engine's counters for the throughput log. */
import type { LoadCounts } from "../core/throughput.js";
import type { Engine } from "../engine/api/engine.js";

export function countsOf(engine: Pick<Engine, "info" | "stats">): LoadCounts {
  const stats = engine.stats();
  const { numKvBlocks } = engine.info;
  return {
    numRunning: stats.numRunning,
    numWaiting: stats.numWaiting,
    kvUsage: numKvBlocks === 0 ? undefined : stats.numUsedKvBlocks / numKvBlocks,
    promptTokens: stats.numPromptTokens,
    generationTokens: stats.numGenerationTokens,
    prefixQueries: stats.prefixCacheQueriedTokens,
    prefixHits: stats.prefixCacheHitTokens,
  };
}
