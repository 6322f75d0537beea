/** `millrace bench engine` without its command line: rounds for each batch size, medians and spreads. */

import { type Summary, summarize } from "../../core/statistics.js";
import type { Engine } from "../../engine/api/engine.js";
import { type RoundSample, runRound } from "./engine-round.js";
import { randomPrompts } from "./random-prompts.js";

export interface EngineBenchSpec {
  readonly batches: readonly number[];
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly sharedPrefix: number;
  readonly repetitions: number;
}

export interface EngineBenchSample extends RoundSample {
  readonly prefillTokensPerS: number;
  readonly decodeTokensPerS: number;
}

export interface EngineBenchResult {
  readonly batch: number;
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly sharedPrefix: number;
  /**
   * Medians. Prefill counts all prompt tokens, including those from a shared prefix; decode counts the tokens of all
   * sequences.
   */
  readonly prefillTokensPerS: number;
  readonly decodeTokensPerS: number;
  readonly prefillSummary: Summary;
  readonly decodeSummary: Summary;
  readonly samples: readonly EngineBenchSample[];
}

/** A short warm-up touches every weight, buffer and code path. */
const WARM_UP = { promptTokens: 32, genTokens: 4 };

/**
 * One warm-up round and `repetitions` measured rounds for each batch size.
 * @param onRound called after each measured round
 * @param onIdle called before the first measured round of a batch size and after each round, while the engine is idle
 */
export async function benchEngine(
  engine: Engine,
  spec: EngineBenchSpec,
  onRound: (batch: number, repetition: number, sample: EngineBenchSample) => void,
  onIdle: () => void = () => {},
): Promise<EngineBenchResult[]> {
  const results: EngineBenchResult[] = [];
  let seed = 0;
  for (const batch of spec.batches) {
    await measure(engine, warmUpOf(spec), batch, seed++);
    const samples: EngineBenchSample[] = [];
    onIdle();
    for (let repetition = 1; repetition <= spec.repetitions; repetition++) {
      const sample = await measure(engine, spec, batch, seed++);
      samples.push(sample);
      onRound(batch, repetition, sample);
      onIdle();
    }
    results.push(resultOf(spec, batch, samples));
  }
  return results;
}

function warmUpOf(spec: EngineBenchSpec): EngineBenchSpec {
  return {
    ...spec,
    promptTokens: Math.min(spec.promptTokens, WARM_UP.promptTokens),
    genTokens: Math.min(spec.genTokens, WARM_UP.genTokens),
    sharedPrefix: 0,
  };
}

async function measure(engine: Engine, spec: EngineBenchSpec, batch: number, seed: number): Promise<EngineBenchSample> {
  const { promptTokens, genTokens, sharedPrefix } = spec;
  const { vocabSize } = engine.info;
  // Each round has its own seed, so that no prompt is in the prefix cache.
  const prompts = randomPrompts({ batch, promptTokens, sharedPrefix, vocabSize }, seed);
  const round = await runRound(engine, { prompts, genTokens });
  return {
    ...round,
    prefillTokensPerS: (1000 * batch * promptTokens) / round.prefillMs,
    decodeTokensPerS: (1000 * batch * (genTokens - 1)) / round.decodeMs,
  };
}

function resultOf(spec: EngineBenchSpec, batch: number, samples: readonly EngineBenchSample[]): EngineBenchResult {
  const { promptTokens, genTokens, sharedPrefix } = spec;
  const prefillSummary = summarize(samples.map((sample) => sample.prefillTokensPerS));
  const decodeSummary = summarize(samples.map((sample) => sample.decodeTokensPerS));
  return {
    batch,
    promptTokens,
    genTokens,
    sharedPrefix,
    prefillTokensPerS: prefillSummary.median,
    decodeTokensPerS: decodeSummary.median,
    prefillSummary,
    decodeSummary,
    samples,
  };
}
