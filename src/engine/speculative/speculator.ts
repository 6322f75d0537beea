/**
 * Decides what to draft: asks the drafters, weighs each drafted token's chance of being right against what its row costs, and keeps as many
 * as give the most tokens per second: none, often. What is drafted never changes a result, only how soon it is there.
 */
import type { Sequence } from "../sequence.js";
import type { StepCost } from "../step-cost.js";
import { Acceptance, type RequestAcceptance } from "./acceptance.js";
import type { SpeculativeConfig } from "./config.js";
import type { Draft, Drafter } from "./drafter.js";
import { PromptLookup, SuffixLookup } from "./lookup.js";

/** Counters since start, as vLLM names them. */
export interface SpeculationStats {
  readonly numDrafts: number;
  readonly numDraftTokens: number;
  readonly numAcceptedTokens: number;
  /** Drafts whose token at this place was accepted. */
  readonly numAcceptedTokensPerPosition: readonly number[];
}

export const NO_SPECULATION_STATS: SpeculationStats = {
  numDrafts: 0,
  numDraftTokens: 0,
  numAcceptedTokens: 0,
  numAcceptedTokensPerPosition: [],
};

/** The drafters that a configuration names. */
export function draftersOf(config: SpeculativeConfig): readonly Drafter[] {
  const own = new PromptLookup(config);
  return config.method === "ngram" ? [own] : [own, new SuffixLookup(config)];
}

/** Rows beyond plain decoding must promise at least this much more speed: estimates err. */
const MIN_GAIN = 1.02;

interface Candidate {
  readonly sequence: Sequence;
  readonly drafter: number;
  readonly draft: Draft;
  /** Probability that the token at each place is right and all before it too. */
  readonly chances: readonly number[];
}

interface Planned {
  readonly drafter: number;
  readonly kind: number;
}

export class Speculator {
  readonly #acceptance: readonly Acceptance[];
  readonly #ofRequest = new Map<Sequence, readonly RequestAcceptance[]>();
  readonly #planned = new Map<Sequence, Planned>();
  readonly #acceptedPerPosition: number[];
  #numDrafts = 0;
  #numDraftTokens = 0;
  #numAcceptedTokens = 0;

  constructor(
    private readonly drafters: readonly Drafter[],
    private readonly cost: StepCost,
    private readonly config: SpeculativeConfig,
  ) {
    this.#acceptance = drafters.map(() => new Acceptance());
    this.#acceptedPerPosition = new Array<number>(config.numSpeculativeTokens).fill(0);
  }

  /**
   * Sets the drafts of `sequences`, all of which decode.
   * @param numRows rows the step computes without drafts; @param maxDraftRows rows that drafts may add
   */
  propose(sequences: readonly Sequence[], numRows: number, maxDraftRows: number): void {
    const candidates = sequences.flatMap((sequence) => this.#candidateOf(sequence) ?? []);
    const chances = candidates.flatMap(({ chances }) => chances).sort((a, b) => b - a);
    const numChosen = Math.min(
      maxDraftRows,
      this.config.isAdaptive ? this.#bestCount(chances, sequences.length, numRows) : chances.length,
    );
    if (numChosen === 0) return;
    const least = chances[numChosen - 1]!;
    let numLeft = numChosen;
    for (const { sequence, drafter, draft, chances } of candidates) {
      const numTokens = Math.min(numLeft, chances.filter((chance) => chance >= least).length);
      if (numTokens === 0) continue;
      numLeft -= numTokens;
      sequence.setDraft(draft.tokens.slice(0, numTokens));
      this.#planned.set(sequence, { drafter, kind: draft.kind });
    }
  }

  /** The model has checked a sequence's draft. */
  observe(sequence: Sequence, numDrafted: number, numAccepted: number): void {
    const planned = this.#planned.get(sequence);
    this.#planned.delete(sequence);
    if (planned === undefined || numDrafted === 0) return;
    this.#requestOf(sequence)[planned.drafter]!.observe(planned.kind, numDrafted, numAccepted);
    this.#numDrafts++;
    this.#numDraftTokens += numDrafted;
    this.#numAcceptedTokens += numAccepted;
    for (let i = 0; i < numAccepted; i++) this.#acceptedPerPosition[i]!++;
  }

  forget(sequence: Sequence): void {
    for (const drafter of this.drafters) drafter.forget(sequence);
    this.#ofRequest.delete(sequence);
    this.#planned.delete(sequence);
  }

  stats(): SpeculationStats {
    return {
      numDrafts: this.#numDrafts,
      numDraftTokens: this.#numDraftTokens,
      numAcceptedTokens: this.#numAcceptedTokens,
      numAcceptedTokensPerPosition: [...this.#acceptedPerPosition],
    };
  }

  /** The drafter's guess that promises most tokens. */
  #candidateOf(sequence: Sequence): Candidate | undefined {
    const maxTokens = Math.min(this.config.numSpeculativeTokens, sequence.numTokensLeft - 1);
    if (maxTokens < 1) return undefined;
    const request = this.#requestOf(sequence);
    let best: Candidate | undefined;
    let mostExpected = 0;
    this.drafters.forEach((source, drafter) => {
      request[drafter]!.idle();
      const draft = source.propose(sequence, maxTokens);
      if (draft === undefined) return;
      const rate = request[drafter]!.estimate(draft.kind);
      let chance = 1;
      const chances = draft.confidences.map((confidence) => (chance *= rate * confidence));
      const expected = chances.reduce((sum, each) => sum + each, 0);
      if (expected <= mostExpected) return;
      mostExpected = expected;
      best = { sequence, drafter, draft, chances };
    });
    return best;
  }

  /** How many of the drafted tokens, likeliest first, make tokens per second the most. */
  #bestCount(chances: readonly number[], numSequences: number, numRows: number): number {
    const plain = numSequences / this.cost.ms(numRows);
    let best = plain * MIN_GAIN;
    let bestCount = 0;
    let expected = numSequences;
    chances.forEach((chance, i) => {
      expected += chance;
      const speed = expected / this.cost.ms(numRows + i + 1);
      if (speed <= best) return;
      best = speed;
      bestCount = i + 1;
    });
    return bestCount;
  }

  #requestOf(sequence: Sequence): readonly RequestAcceptance[] {
    let request = this.#ofRequest.get(sequence);
    if (request === undefined) {
      request = this.#acceptance.map((acceptance) => acceptance.newRequest());
      this.#ofRequest.set(sequence, request);
    }
    return request;
  }
}
