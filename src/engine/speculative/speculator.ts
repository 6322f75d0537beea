/**
 * Decides what to draft: asks the drafters, weighs each drafted token's chance of being right against what its row costs, and keeps as many
 * as give the most tokens per second: none, often. What is drafted never changes a result, only how soon it is there.
 */
import type { ScheduledSequence } from "../scheduler.js";
import type { Sequence } from "../sequence.js";
import type { StepCost } from "../step-cost.js";
import { Acceptance, type RequestAcceptance } from "./acceptance.js";
import { isModelMethod, type SpeculativeConfig } from "./config.js";
import { DraftAccount } from "./draft-account.js";
import type { BatchDrafter, Draft, Drafter } from "./drafter.js";
import { PromptLookup, SuffixLookup } from "./lookup.js";
import type { SpeculationStats } from "./stats.js";

/** The drafters that a configuration names, a draft model and heads aside. */
export function draftersOf(config: SpeculativeConfig): readonly Drafter[] {
  if (isModelMethod(config.method)) return [];
  const own = new PromptLookup(config);
  return config.method === "ngram" ? [own] : [own, new SuffixLookup(config)];
}

/** Rows beyond plain decoding must promise at least this much more speed: estimates err. */
const MIN_GAIN = 1.06;
/** All guesses of a draft model are of this kind. */
const MODEL_KIND = 3;

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
  readonly #account = new DraftAccount();
  /** What an accepted token of the last step saves. */
  #msPerToken = 0;
  #numDrafts = 0;
  #numDraftTokens = 0;
  #numAcceptedTokens = 0;

  constructor(
    private readonly drafters: readonly Drafter[],
    private readonly cost: StepCost,
    private readonly config: SpeculativeConfig,
    private readonly model?: BatchDrafter,
    private readonly now: () => number = () => performance.now(),
  ) {
    // The last one is the draft model's.
    this.#acceptance = Array.from({ length: drafters.length + 1 }, () => new Acceptance());
    this.#acceptedPerPosition = new Array<number>(config.numSpeculativeTokens).fill(0);
  }

  /**
   * Sets the drafts of `sequences`, all of which decode.
   * @param numRows rows the step computes without drafts; @param maxRows rows that drafts may add
   */
  propose(sequences: readonly Sequence[], numRows: number, maxRows: number): void {
    if (!this.config.isAdaptive) {
      this.#find(sequences, numRows, maxRows);
      return;
    }
    if (sequences.length === 0) return;
    const plainMs = this.cost.ms(sequences.length);
    if (!this.#account.open(plainMs)) return;
    this.#msPerToken = plainMs / sequences.length;
    for (const sequence of sequences) if (!this.#ofRequest.has(sequence)) this.#begin(sequence);
    // What more rows would cost than are known is a guess.
    const numKnown = Math.max(0, this.cost.maxRows - numRows);
    const startMs = this.now();
    const numDrafted = this.#find(sequences, numRows, Math.min(maxRows, numKnown));
    const checkMs = this.cost.ms(numRows + numDrafted) - this.cost.ms(numRows);
    this.#account.add(startMs - this.now() - checkMs);
  }

  /** What it takes to know a prompt is little beside computing it, and paid once: it does not count against a draft. */
  #begin(sequence: Sequence): void {
    this.#requestOf(sequence);
    for (const drafter of this.drafters) drafter.begin?.(sequence);
  }

  /** Returns the rows that were added. */
  #find(sequences: readonly Sequence[], numRows: number, maxDraftRows: number): number {
    const candidates = sequences.flatMap((sequence) => this.#candidateOf(sequence) ?? []);
    const numFound = this.#keepBest(candidates, sequences.length, numRows, maxDraftRows);
    if (this.model === undefined || numFound === maxDraftRows) return numFound;
    const others = sequences.filter((sequence) => sequence.numDraftTokens === 0 && sequence.numTokensLeft > 1);
    const numLeft = maxDraftRows - numFound;
    return numFound + this.#askModel(this.model, others, sequences.length, numRows + numFound, numLeft);
  }

  /** Gives the sequences those drafted tokens that are worth their rows, the likeliest first; returns how many. */
  #keepBest(candidates: readonly Candidate[], numSequences: number, numRows: number, maxDraftRows: number): number {
    const chances = candidates.flatMap(({ chances }) => chances).sort((a, b) => b - a);
    const numWorth = this.config.isAdaptive ? this.#bestCount(chances, numSequences, numRows) : chances.length;
    const numChosen = Math.min(maxDraftRows, numWorth);
    if (numChosen === 0) return 0;
    const least = chances[numChosen - 1]!;
    let numLeft = numChosen;
    for (const { sequence, drafter, draft, chances } of candidates) {
      const numTokens = Math.min(numLeft, chances.filter((chance) => chance >= least).length);
      if (numTokens === 0) continue;
      numLeft -= numTokens;
      sequence.setDraft(draft.tokens.slice(0, numTokens));
      this.#planned.set(sequence, { drafter, kind: draft.kind });
    }
    return numChosen - numLeft;
  }

  /** Lets the draft model guess for the sequences nothing else was found for, as far as its own time pays too; returns how many tokens. */
  #askModel(
    model: BatchDrafter,
    sequences: readonly Sequence[],
    numSequences: number,
    numRows: number,
    maxRows: number,
  ): number {
    const drafter = this.drafters.length;
    const ready = model.ready(sequences);
    for (const sequence of ready) this.#requestOf(sequence)[drafter]!.idle();
    const rates = ready.map((sequence) => this.#requestOf(sequence)[drafter]!.estimate(MODEL_KIND));
    const numTokens = this.#bestLength(model, rates, numSequences, numRows, maxRows);
    if (numTokens === 0) return 0;
    let numDrafted = 0;
    model.propose(ready, numTokens).forEach((tokens, i) => {
      const sequence = ready[i]!;
      const draft = tokens.slice(0, sequence.numTokensLeft - 1);
      if (draft.length === 0) return;
      sequence.setDraft(draft);
      this.#planned.set(sequence, { drafter, kind: MODEL_KIND });
      numDrafted += draft.length;
    });
    return numDrafted;
  }

  /** How far the draft model shall guess for all of them: 0, or what makes tokens per second the most. */
  #bestLength(
    model: BatchDrafter,
    rates: readonly number[],
    numSequences: number,
    numRows: number,
    maxRows: number,
  ): number {
    const most = Math.min(
      this.config.numSpeculativeTokens,
      model.maxTokens,
      Math.floor(maxRows / Math.max(1, rates.length)),
    );
    if (rates.length === 0 || !this.config.isAdaptive) return rates.length === 0 ? 0 : most;
    const guessMs = model.cost.ms(rates.length);
    let best = (numSequences / this.cost.ms(numRows)) * MIN_GAIN;
    let bestLength = 0;
    let expected = numSequences;
    for (let length = 1; length <= most; length++) {
      expected += rates.reduce((sum, rate) => sum + rate ** length, 0);
      const speed = expected / (length * guessMs + this.cost.ms(numRows + length * rates.length));
      if (speed <= best) continue;
      best = speed;
      bestLength = length;
    }
    return bestLength;
  }

  /** The model has checked a sequence's draft. */
  observe(sequence: Sequence, numDrafted: number, numAccepted: number): void {
    const planned = this.#planned.get(sequence);
    this.#planned.delete(sequence);
    if (planned === undefined || numDrafted === 0) return;
    this.#requestOf(sequence)[planned.drafter]!.observe(planned.kind, numDrafted, numAccepted);
    this.#account.add(numAccepted * this.#msPerToken);
    this.#numDrafts++;
    this.#numDraftTokens += numDrafted;
    this.#numAcceptedTokens += numAccepted;
    for (let i = 0; i < numAccepted; i++) this.#acceptedPerPosition[i]!++;
  }

  /** A step has been laid out. */
  tapHidden(scheduled: readonly ScheduledSequence[]): void {
    this.model?.tapHidden?.(scheduled);
  }

  /** The step was computed and its tokens taken in. */
  takeHidden(): void {
    this.model?.takeHidden?.();
  }

  forget(sequence: Sequence): void {
    for (const drafter of this.drafters) drafter.forget(sequence);
    this.model?.forget(sequence);
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
