/**
 * Measures speculation at a given acceptance: an engine in this process decodes each batch without drafts and then with
 * a drafter that knows the output, in alternation. Both must give the same tokens.
 */
import { MillraceError } from "../../core/errors.js";
import { median } from "../../core/statistics.js";
import { GREEDY_SAMPLING } from "../../engine/api/request.js";
import type { EngineCore } from "../../engine/engine-core.js";
import { OracleDrafter } from "./oracle-drafter.js";
import { randomPrompts } from "./random-prompts.js";

export interface SpeculationBenchSpec {
  readonly batches: readonly number[];
  /** Probability that a draft token is right. */
  readonly acceptance: number;
  readonly maxDraftTokens: number;
  readonly promptTokens: number;
  readonly genTokens: number;
  readonly temperature: number;
  readonly rounds: number;
}

export interface SpeculationBenchResult {
  readonly batch: number;
  /** Medians for decoding, without the prompts. */
  readonly plainTokensPerS: number;
  readonly tokensPerS: number;
  /** The median ratio, and the ratios of all rounds. */
  readonly ratio: number;
  readonly ratios: readonly number[];
  /**
   * The highest ratio that the measured step times allow at this acceptance, with the best fixed draft length and free
   * drafts.
   */
  readonly bound: number;
  readonly tokensPerStep: number;
  /** Undefined without drafts. */
  readonly acceptedShare: number | undefined;
}

/** The outputs that the drafter knows; none during plain decoding. */
export class Outcomes {
  #known: ReadonlyMap<number, readonly number[]> = new Map();

  set(known: ReadonlyMap<number, readonly number[]>): void {
    this.#known = known;
  }

  drafter(acceptance: number): OracleDrafter {
    return new OracleDrafter((requestId) => this.#known.get(requestId), acceptance, Math.random);
  }
}

interface Run {
  readonly outputs: ReadonlyMap<number, readonly number[]>;
  readonly tokensPerS: number;
  readonly numSteps: number;
}

/** @param core an idle engine whose only drafter is `outcomes.drafter(spec.acceptance)` */
export async function benchSpeculation(
  core: EngineCore,
  outcomes: Outcomes,
  spec: SpeculationBenchSpec,
  onResult: (result: SpeculationBenchResult) => void = () => {},
): Promise<SpeculationBenchResult[]> {
  const results: SpeculationBenchResult[] = [];
  for (const batch of spec.batches) {
    const result = await benchBatch(core, outcomes, spec, batch);
    onResult(result);
    results.push(result);
  }
  return results;
}

const WARM_UP = 0;

async function benchBatch(
  core: EngineCore,
  outcomes: Outcomes,
  spec: SpeculationBenchSpec,
  batch: number,
): Promise<SpeculationBenchResult> {
  const plain: number[] = [];
  const guessed: number[] = [];
  const bounds: number[] = [];
  let numSteps = 0;
  let before = core.stats().speculation;
  for (let round = WARM_UP; round <= spec.rounds; round++) {
    outcomes.set(new Map());
    const first = await runBatch(core, spec, batch, round);
    const bound = boundOf(core, batch, spec);
    outcomes.set(first.outputs);
    const second = await runBatch(core, spec, batch, round);
    for (const [id, tokens] of first.outputs) {
      if (tokens.join() === second.outputs.get(id)?.join()) continue;
      throw new MillraceError(
        "engine_failed",
        `expected the same tokens with drafts as without, got others in request ${id}`,
      );
    }
    if (round === WARM_UP) {
      before = core.stats().speculation;
      continue;
    }
    bounds.push(bound);
    plain.push(first.tokensPerS);
    guessed.push(second.tokensPerS);
    numSteps += second.numSteps;
  }
  const after = core.stats().speculation;
  const numDrafted = after.numDraftTokens - before.numDraftTokens;
  const ratios = guessed.map((speed, i) => speed / plain[i]!);
  return {
    batch,
    plainTokensPerS: median(plain),
    tokensPerS: median(guessed),
    ratio: median(ratios),
    ratios,
    bound: median(bounds),
    tokensPerStep: ((spec.genTokens - 1) * spec.rounds) / numSteps,
    acceptedShare: numDrafted === 0 ? undefined : (after.numAcceptedTokens - before.numAcceptedTokens) / numDrafted,
  };
}

/** Both runs of a round have the same ids and prompts. */
async function runBatch(core: EngineCore, spec: SpeculationBenchSpec, batch: number, round: number): Promise<Run> {
  const { promptTokens, genTokens, temperature } = spec;
  const prompts = randomPrompts({ batch, promptTokens, sharedPrefix: 0, vocabSize: core.info.vocabSize }, round);
  const sampling = { ...GREEDY_SAMPLING, temperature, seed: BigInt(round), maxTokens: genTokens };
  const outputs = new Map<number, number[]>();
  prompts.forEach((promptIds, id) => {
    outputs.set(id, []);
    core.add(id, { promptIds, sampling });
  });
  let startMs = 0;
  let numSteps = 0;
  let numAtStart = 0;
  let numTokens = 0;
  while (core.hasWork) {
    for (const { requestId, output } of await core.step()) {
      outputs.get(requestId)!.push(...output.tokenIds);
      numTokens += output.tokenIds.length;
    }
    numSteps++;
    if (startMs !== 0 || [...outputs.values()].some((tokens) => tokens.length === 0)) continue;
    // All prompts are computed.
    startMs = performance.now();
    numSteps = 0;
    numAtStart = numTokens;
  }
  return { outputs, numSteps, tokensPerS: (1000 * (numTokens - numAtStart)) / (performance.now() - startMs) };
}

function boundOf(core: EngineCore, batch: number, { acceptance, maxDraftTokens }: SpeculationBenchSpec): number {
  let best = 1;
  let expected = 1;
  for (let drafted = 1; drafted <= maxDraftTokens; drafted++) {
    expected += acceptance ** drafted;
    best = Math.max(best, (expected * core.stepMs(batch)) / core.stepMs(batch * (1 + drafted)));
  }
  return best;
}
