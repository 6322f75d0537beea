/** Throughput since the last look, as a line like vLLM's log line every ten seconds. */

export const THROUGHPUT_EVERY_MS = 10_000;

/** Present counts, and totals since the process's start; undefined: the engine does not report them. */
export interface LoadCounts {
  readonly numRunning: number | undefined;
  readonly numWaiting: number | undefined;
  /** 0 to 1. */
  readonly kvUsage: number | undefined;
  readonly promptTokens: number | undefined;
  readonly generationTokens: number | undefined;
  /** Prompt tokens looked up in the prefix cache, and tokens found in it. */
  readonly prefixQueries: number | undefined;
  readonly prefixHits: number | undefined;
}

interface Throughput {
  readonly promptTokensPerS: number;
  readonly generationTokensPerS: number;
  readonly running: number | undefined;
  readonly waiting: number | undefined;
  readonly kvUsage: number | undefined;
  /** Share of the looked-up tokens that were cached; undefined if no tokens were looked up. */
  readonly prefixHitRate: number | undefined;
}

type Total = "promptTokens" | "generationTokens" | "prefixQueries" | "prefixHits";

export class ThroughputMeter {
  #atMs: number;
  #before: LoadCounts | undefined;

  /** @param counts totals before the first line; undefined: all zero */
  constructor(nowMs: number, counts?: LoadCounts) {
    this.#atMs = nowMs;
    this.#before = counts;
  }

  /** @returns undefined if the engine was idle since the last call */
  since(nowMs: number, counts: LoadCounts): Throughput | undefined {
    const seconds = Math.max(nowMs - this.#atMs, 1) / 1000;
    const delta = (key: Total): number => {
      const now = counts[key] ?? 0;
      const before = this.#before?.[key] ?? 0;
      // A restarted process counts from zero.
      return now < before ? now : now - before;
    };
    const [prompt, generation] = [delta("promptTokens"), delta("generationTokens")];
    const [queries, hits] = [delta("prefixQueries"), delta("prefixHits")];
    this.#atMs = nowMs;
    this.#before = counts;
    const { numRunning: running, numWaiting: waiting, kvUsage } = counts;
    if (prompt + generation + (running ?? 0) + (waiting ?? 0) === 0) return undefined;
    return {
      promptTokensPerS: prompt / seconds,
      generationTokensPerS: generation / seconds,
      running,
      waiting,
      kvUsage,
      prefixHitRate: queries === 0 ? undefined : hits / queries,
    };
  }
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export function describeThroughput(throughput: Throughput): string {
  const { promptTokensPerS, generationTokensPerS, running, waiting, kvUsage, prefixHitRate } = throughput;
  const parts = [`prompts ${promptTokensPerS.toFixed(1)} tok/s`, `answers ${generationTokensPerS.toFixed(1)} tok/s`];
  if (running !== undefined) parts.push(`running ${running}`);
  if (waiting !== undefined) parts.push(`waiting ${waiting}`);
  if (kvUsage !== undefined) parts.push(`KV ${percent(kvUsage)}`);
  if (prefixHitRate !== undefined) parts.push(`prefix hits ${percent(prefixHitRate)}`);
  return parts.join(", ");
}
