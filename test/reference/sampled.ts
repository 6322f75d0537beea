/** Runs the operation `sample`, and counts what it has drawn. */
import type { Bench } from "./compare.js";
import { withBench } from "./compare.js";
import { recordSample, type SampleRowInput } from "./recorders.js";

export interface Sampled {
  readonly ids: number[];
  readonly ranks: number[];
  readonly logprobs: Float32Array;
  readonly topIds: number[];
  readonly topLogprobs: Float32Array;
}

export function runSample(bench: Bench, rows: readonly SampleRowInput[], topStride = 4): Sampled {
  return withBench(bench, () => {
    const outputs = recordSample(bench, rows, topStride);
    bench.run();
    return {
      ids: [...bench.readI32(outputs.ids)],
      ranks: [...bench.readI32(outputs.ranks)],
      logprobs: bench.readF32(outputs.logprobs),
      topIds: [...bench.readI32(outputs.topIds)],
      topLogprobs: bench.readF32(outputs.topLogprobs),
    };
  });
}

/** Pearson's statistic of counts against expected shares. */
export function chiSquare(counts: readonly number[], shares: readonly number[]): number {
  const total = counts.reduce((a, b) => a + b, 0);
  return shares.reduce((sum, share, i) => sum + (counts[i]! - total * share) ** 2 / (total * share), 0);
}

export function countIds(ids: readonly number[], vocabSize: number): number[] {
  const counts = new Array<number>(vocabSize).fill(0);
  for (const id of ids) counts[id]! += 1;
  return counts;
}
