/**
 * Decides what to draft: asks the drafter, weighs each drafted token's chance of being right against what its row costs, and keeps as many
 * as give the most tokens per second: none, often. What is drafted never changes a result, only how soon it is there.
 */
import type { ScheduledSequence } from "../scheduler.js";
import type { Sequence } from "../sequence.js";
import type { StepCost } from "../step-cost.js";
import { Rate, RequestAcceptance } from "./acceptance.js";
import type { SpeculativeConfig } from "./config.js";
import { DraftAccount } from "./draft-account.js";
import type { BatchDrafter, Draft, Drafter } from "./drafter.js";
import type { SpeculationStats } from "./stats.js";

/** Rows beyond plain decoding must promise at least this much more speed: estimates err. */
const MIN_GAIN = 1.06;
/** One step in so many has no drafts: what plain decoding takes must stay known where drafts are the rule. */
const PLAIN_EVERY = 32;
/** Of a request's guesses that were found, how often they come true is learnt apart for so many levels of what was expected. */
const NUM_LEVELS = 8;
/** Guesses of a draft model after which an older one counts half, and what is believed of it at first, as if it were so many tries. */
const MODEL_MEMORY = 512;
const MODEL_FIRST_GUESS = 0.7;
const MODEL_FIRST_WEIGHT = 8;

interface Candidate {
  readonly sequence: Sequence;
  readonly draft: Draft;
  /** Probability that the token at each place is right and all before it too. */
  readonly chances: readonly number[];
}

interface Planned {
  readonly isByModel: boolean;
  /** What the drafter expected of each token. */
  readonly chances: readonly number[];
}

interface Acceptance {
  readonly found: RequestAcceptance;
  readonly byModel: RequestAcceptance;
}

export class Speculator {
  readonly #modelRate = new Rate(MODEL_MEMORY);
  readonly #ofRequest = new Map<Sequence, Acceptance>();
  readonly #planned = new Map<Sequence, Planned>();
  readonly #acceptedPerPosition: number[];
  readonly #account = new DraftAccount();
  /** What an accepted token of the last step saves. */
  #msPerToken = 0;
  #numAsked = 0;
  #numDrafts = 0;
  #numDraftTokens = 0;
  #numAcceptedTokens = 0;

  constructor(
    private readonly drafter: Drafter | undefined,
    private readonly cost: StepCost,
    private readonly config: SpeculativeConfig,
    private readonly model?: BatchDrafter,
    private readonly now: () => number = () => performance.now(),
  ) {
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
    if (sequences.length === 0 || ++this.#numAsked % PLAIN_EVERY === 0) return;
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
    this.drafter?.begin?.(sequence);
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
    for (const { sequence, draft, chances } of candidates) {
      const numTokens = Math.min(numLeft, chances.filter((chance) => chance >= least).length);
      if (numTokens === 0) continue;
      numLeft -= numTokens;
      sequence.setDraft(draft.tokens.slice(0, numTokens));
      this.#planned.set(sequence, { isByModel: false, chances: draft.chances });
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
    const ready = model.ready(sequences);
    const chance = this.#modelRate.estimate(MODEL_FIRST_GUESS, MODEL_FIRST_WEIGHT);
    const rates = ready.map((sequence) => {
      const { byModel } = this.#requestOf(sequence);
      byModel.idle();
      return byModel.estimate(chance);
    });
    const numTokens = this.#bestLength(model, rates, numSequences, numRows, maxRows);
    if (numTokens === 0) return 0;
    let numDrafted = 0;
    model.propose(ready, numTokens).forEach((tokens, i) => {
      const sequence = ready[i]!;
      const draft = tokens.slice(0, sequence.numTokensLeft - 1);
      if (draft.length === 0) return;
      sequence.setDraft(draft);
      this.#planned.set(sequence, { isByModel: true, chances: draft.map(() => chance) });
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
    const { found, byModel } = this.#requestOf(sequence);
    const chances = planned.chances.slice(0, numDrafted);
    (planned.isByModel ? byModel : found).observe(chances, numAccepted);
    if (planned.isByModel)
      for (const i of chances.slice(0, numAccepted + 1).keys()) this.#modelRate.count(i < numAccepted);
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
    this.drafter?.forget(sequence);
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

  /** What the drafter finds for a sequence. */
  #candidateOf(sequence: Sequence): Candidate | undefined {
    const maxTokens = Math.min(this.config.numSpeculativeTokens, sequence.numTokensLeft - 1);
    if (this.drafter === undefined || maxTokens < 1) return undefined;
    const { found } = this.#requestOf(sequence);
    found.idle();
    const draft = this.drafter.propose(sequence, maxTokens);
    if (draft === undefined) return undefined;
    let chance = 1;
    return { sequence, draft, chances: draft.chances.map((each) => (chance *= found.estimate(each))) };
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

  #requestOf(sequence: Sequence): Acceptance {
    let request = this.#ofRequest.get(sequence);
    if (request === undefined) {
      request = { found: new RequestAcceptance(NUM_LEVELS), byModel: new RequestAcceptance(1) };
      this.#ofRequest.set(sequence, request);
    }
    return request;
  }
}
