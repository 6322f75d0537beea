/**
 * Decides how much to draft: weighs the acceptance probability of each drafted token against the cost of its row, and
 * keeps the number that gives the most tokens per second, often none. Drafts never change a result, only the time it
 * takes.
 */

import type { SpeculativeConfig } from "../api/speculative-config.js";
import type { SpeculationStats } from "../api/stats.js";
import type { ScheduledSequence, Sequence } from "../step/sequence.js";
import type { StepCost } from "../step/step-cost.js";
import { Acceptance } from "./acceptance.js";
import type { BatchDrafter, Draft, Drafter } from "./drafter.js";
import { Experience, NUM_LEVELS } from "./experience.js";

/** Smallest predicted speed-up worth a draft: estimates err. */
const MIN_GAIN = 1.06;
/** Every 32nd step has no drafts, so that the cost of plain decoding stays known. */
const PLAIN_EVERY = 32;
/**
 * Probe interval: of the steps in which no draft of the draft model looks profitable, every 64th drafts one token all
 * the same, so that a changed acceptance rate is noticed.
 */
const PROBE_EVERY = 64;
/** Prior acceptance rate of the draft model. */
const MODEL_FIRST_GUESS = 0.7;

interface DraftCandidate {
  readonly sequence: Sequence;
  readonly draft: Draft;
  /** For each token, the probability that it and all before it are right. */
  readonly chances: readonly number[];
  /** Probabilities of the alternatives to the draft's first token. */
  readonly others?: readonly number[];
}

interface Planned {
  /** The drafter's estimates for the tokens to verify. */
  readonly chances: readonly number[];
  /** The drafter's own probabilities of the alternatives to verify. */
  readonly others: readonly number[];
  /** Present where a draft model made the draft. */
  readonly byModel?: {
    /** Estimate of the first drafted token that was not worth verifying, if there is one. */
    readonly unchecked: number | undefined;
  };
}

/** Alternatives that were verified, and the index of the one that came true; undefined: none did. */
interface VerifiedAlternatives {
  readonly numVerified: number;
  readonly right: number | undefined;
}
const NO_ALTERNATIVES: VerifiedAlternatives = { numVerified: 0, right: undefined };

/** Acceptance statistics of one request. */
interface RequestAcceptance {
  readonly found: Acceptance;
  /** Draft model: by its own probability for the token, and over all tokens. */
  readonly byModel: Acceptance;
  readonly byModelOverall: Acceptance;
}

export class Speculator {
  /**
   * Background requests have other texts, so the fate of their drafts says nothing about other requests. It is counted
   * apart.
   */
  readonly #foreground = new Experience();
  readonly #background = new Experience();
  /** The shared counts of the step under way: no step has sequences of both kinds. */
  #shared = this.#foreground;
  readonly #ofRequest = new Map<Sequence, RequestAcceptance>();
  readonly #planned = new Map<Sequence, Planned>();
  readonly #acceptedPerPosition: number[];
  /** Milliseconds that an accepted token of the last step saves. */
  #msPerToken = 0;
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
   * @param numRows rows of the step without drafts;
   * @param maxRows rows that drafts may add
   */
  async propose(sequences: readonly Sequence[], numRows: number, maxRows: number): Promise<void> {
    this.#shared = this.#sharedBy(sequences[0]);
    if (!this.config.isAdaptive) {
      await this.#find(sequences, numRows, maxRows);
      return;
    }
    if (sequences.length === 0 || ++this.#shared.numAsked % PLAIN_EVERY === 0) return;
    const plainMs = this.cost.ms(sequences.length);
    if (!this.#shared.account.open(plainMs)) {
      this.#shared.isModelWorthIt = false;
      return;
    }
    this.#msPerToken = plainMs / sequences.length;
    for (const sequence of sequences) if (!this.#ofRequest.has(sequence)) this.#begin(sequence);
    // Costs beyond the measured number of rows are extrapolated, so drafts stay within it.
    const numKnown = Math.max(0, this.cost.maxRows - numRows);
    const startMs = this.now();
    const numDrafted = await this.#find(sequences, numRows, Math.min(maxRows, numKnown));
    const checkMs = this.cost.ms(numRows + numDrafted) - this.cost.ms(numRows);
    this.#shared.account.add(startMs - this.now() - checkMs);
  }

  /** Reading a prompt costs little beside computing it, and once: it is not charged to drafts. */
  #begin(sequence: Sequence): void {
    this.#requestOf(sequence);
    this.drafter?.begin?.(sequence);
  }

  /** @returns the number of rows added */
  async #find(sequences: readonly Sequence[], numRows: number, maxDraftRows: number): Promise<number> {
    const candidates = sequences.flatMap((sequence) => this.#candidateOf(sequence) ?? []);
    const spentMs = this.config.isAdaptive ? 0 : undefined;
    const numFound = this.#keepBest(candidates, sequences.length, numRows, maxDraftRows, spentMs);
    if (this.model === undefined || numFound === maxDraftRows) return numFound;
    const others = sequences.filter((sequence) => sequence.numDraftTokens === 0 && sequence.numTokensLeft > 1);
    const numLeft = maxDraftRows - numFound;
    return numFound + (await this.#askModel(this.model, others, sequences.length, numRows + numFound, numLeft));
  }

  /**
   * Keeps the drafted tokens that are worth their rows, the likeliest first.
   * @param spentMs cost of finding the drafts; undefined: all are verified, worth it or not
   * @returns the number kept
   */
  #keepBest(
    candidates: readonly DraftCandidate[],
    numSequences: number,
    numRows: number,
    maxDraftRows: number,
    spentMs: number | undefined,
  ): number {
    const chances = candidates.flatMap(({ chances, others = [] }) => [...chances, ...others]).sort((a, b) => b - a);
    const numWorth = spentMs === undefined ? chances.length : this.#bestCount(chances, numSequences, numRows, spentMs);
    const numChosen = Math.min(maxDraftRows, numWorth);
    if (numChosen === 0) return 0;
    const least = chances[numChosen - 1]!;
    let numLeft = numChosen;
    for (const { sequence, draft, chances, others = [] } of candidates) {
      const numTokens = Math.min(numLeft, chances.filter((chance) => chance >= least).length);
      if (numTokens === 0) continue;
      numLeft -= numTokens;
      sequence.setDraft(draft.tokens.slice(0, numTokens));
      const numOthers = Math.min(numLeft, others.filter((chance) => chance >= least).length);
      numLeft -= numOthers;
      const { tokens = [], chances: ofOthers = [] } = draft.alternatives ?? {};
      sequence.alternatives = tokens.slice(0, numOthers);
      this.#planned.set(sequence, { chances: draft.chances.slice(0, numTokens), others: ofOthers.slice(0, numOthers) });
    }
    return numChosen;
  }

  /**
   * Lets the draft model draft for sequences without another draft, as long as a further token pays.
   * @returns the number of tokens to verify
   */
  async #askModel(
    model: BatchDrafter,
    sequences: readonly Sequence[],
    numSequences: number,
    numRows: number,
    maxRows: number,
  ): Promise<number> {
    const ready = await model.ready(sequences);
    if (ready.length === 0) return 0;
    const { numSpeculativeTokens, isAdaptive } = this.config;
    const fitting = Math.min(numSpeculativeTokens, model.maxTokens, Math.floor(maxRows / ready.length));
    const requests = ready.map((sequence) => this.#requestOf(sequence));
    const chanceOverall = this.#shared.byModelOverall.estimate(MODEL_FIRST_GUESS);
    const rates = requests.map(({ byModel, byModelOverall }) => {
      byModel.idle();
      byModelOverall.idle();
      return byModelOverall.estimate(chanceOverall);
    });
    const plan = this.#planGuesses(model, rates, fitting, numSequences, numRows);
    const isProbe = isAdaptive && plan.numTokens === 0;
    this.#shared.isModelWorthIt = !isProbe;
    if (isProbe) {
      this.#shared.byModel.idle();
      this.#shared.byModelOverall.idle();
      if (model.picksProbes !== true && ++this.#shared.numUnprofitable % PROBE_EVERY !== 0) return 0;
    }
    const most = isProbe ? Math.min(1, fitting) : fitting;
    const guessed = ready.map(() => ({ expected: [] as number[], chances: [] as number[] }));
    const startMs = this.now();
    const drafts = await model.propose(ready, most, (index, chance, numActive) => {
      const { expected, chances } = guessed[index]!;
      expected.push(requests[index]!.byModel.estimate(chance, this.#shared.byModel.estimate(chance)));
      chances.push((chances.at(-1) ?? 1) * expected.at(-1)!);
      const nextMs = model.cost.ms(numActive) / numActive + plan.rowMs;
      return !isAdaptive || chances.at(-1)! * rates[index]! > plan.tokensPerMs * nextMs;
    });
    const candidates = ready.map((sequence, index) => {
      const numTokens = Math.max(0, sequence.numTokensLeft - 1);
      const draft = drafts[index]!;
      const others = numTokens > 0 ? this.#chancesOfAlternatives(sequence, draft) : [];
      return { sequence, draft, chances: guessed[index]!.chances.slice(0, numTokens), others };
    });
    const spentMs = isAdaptive && !isProbe ? this.now() - startMs : undefined;
    const numKept = this.#keepBest(candidates, numSequences, numRows, maxRows, spentMs);
    ready.forEach((sequence, index) => {
      const unchecked = guessed[index]!.expected[sequence.numDraftTokens];
      const planned = this.#planned.get(sequence);
      if (sequence.numDraftTokens === 0) this.#expectOverall(requests[index]!, unchecked);
      else if (planned !== undefined) this.#planned.set(sequence, { ...planned, byModel: { unchecked } });
    });
    return numKept;
  }

  /**
   * Plans drafts of equal length for all sequences from average acceptance rates: the best length, the speed it gives,
   * and the cost of one more row at that length.
   */
  #planGuesses(
    model: BatchDrafter,
    rates: readonly number[],
    most: number,
    numSequences: number,
    numRows: number,
  ): { numTokens: number; tokensPerMs: number; rowMs: number } {
    const guessMs = model.cost.ms(rates.length);
    let best = (numSequences / this.cost.ms(numRows)) * MIN_GAIN;
    let numTokens = 0;
    let expected = numSequences;
    for (let length = 1; length <= most; length++) {
      expected += rates.reduce((sum, rate) => sum + rate ** length, 0);
      const speed = expected / (length * guessMs + this.cost.ms(numRows + length * rates.length));
      if (speed <= best) continue;
      best = speed;
      numTokens = length;
    }
    const numNewRows = Math.max(1, numTokens) * rates.length;
    const rowMs = (this.cost.ms(numRows + numNewRows) - this.cost.ms(numRows)) / numNewRows;
    return { numTokens, tokensPerMs: best, rowMs };
  }

  /** The model has verified a sequence's draft. */
  observe(
    sequence: Sequence,
    numDrafted: number,
    numAccepted: number,
    alternatives: VerifiedAlternatives = NO_ALTERNATIVES,
  ): void {
    const planned = this.#planned.get(sequence);
    this.#planned.delete(sequence);
    this.#shared = this.#sharedBy(sequence);
    if (planned === undefined || numDrafted === 0) return;
    const request = this.#requestOf(sequence);
    // A grammar may have cut the draft.
    const chances = planned.chances.slice(0, numDrafted);
    // An alternative came true in place of the draft.
    const numRight = alternatives.right === undefined ? numAccepted : 0;
    planned.others.slice(0, alternatives.numVerified).forEach((chance, i) => {
      this.#shared.alternatives.count(chance, i === alternatives.right);
    });
    if (planned.byModel === undefined) request.found.observe(chances, numRight);
    else {
      request.byModel.observe(chances, numRight);
      this.#shared.byModel.observe(chances, numRight);
      request.byModelOverall.observe(chances, numRight);
      this.#shared.byModelOverall.observe(chances, numRight);
      if (numRight === planned.chances.length) this.#expectOverall(request, planned.byModel.unchecked);
    }
    this.#shared.account.add(numAccepted * this.#msPerToken);
    this.#numDrafts++;
    this.#numDraftTokens += numDrafted + alternatives.numVerified;
    this.#numAcceptedTokens += numAccepted;
    for (let i = 0; i < numAccepted; i++) this.#acceptedPerPosition[i]!++;
  }

  /**
   * Counts the first token that was not worth verifying by its estimate: leaving out unlikely tokens would bias the
   * average.
   */
  #expectOverall(request: RequestAcceptance, chance: number | undefined): void {
    if (chance === undefined) return;
    request.byModelOverall.expect(chance);
    this.#shared.byModelOverall.expect(chance);
  }

  /** Call after a step is laid out. */
  async tapHidden(scheduled: readonly ScheduledSequence[]): Promise<void> {
    if (this.model?.tapHidden === undefined) return;
    this.#shared = this.#sharedBy(scheduled[0]?.sequence);
    const startMs = this.now();
    await this.model.tapHidden(scheduled, this.#shared.isModelWorthIt);
    this.charge(this.now() - startMs);
  }

  /** Drafts have cost time beside their rows. */
  charge(ms: number): void {
    this.#shared.account.add(-ms);
  }

  /** Call after a step is collected. */
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

  /** The drafter's proposal for a sequence. */
  #candidateOf(sequence: Sequence): DraftCandidate | undefined {
    const maxTokens = Math.min(this.config.numSpeculativeTokens, sequence.numTokensLeft - 1);
    if (this.drafter === undefined || maxTokens < 1) return undefined;
    const { found } = this.#requestOf(sequence);
    found.idle();
    const draft = this.drafter.propose(sequence, maxTokens);
    if (draft === undefined) return undefined;
    let chance = 1;
    const chances = draft.chances.map((each) => (chance *= found.estimate(each)));
    return { sequence, draft, chances, others: this.#chancesOfAlternatives(sequence, draft) };
  }

  /** Corrected probabilities of a draft's alternatives. */
  #chancesOfAlternatives({ mayHaveAlternatives }: Sequence, { alternatives }: Draft): readonly number[] {
    return mayHaveAlternatives
      ? (alternatives?.chances ?? []).map((chance) => this.#shared.alternatives.estimate(chance))
      : [];
  }

  /** The number of drafted tokens, likeliest first, that maximises tokens per second. */
  #bestCount(chances: readonly number[], numSequences: number, numRows: number, spentMs: number): number {
    const plain = numSequences / (spentMs + this.cost.ms(numRows));
    let best = plain * MIN_GAIN;
    let bestCount = 0;
    let expected = numSequences;
    chances.forEach((chance, i) => {
      expected += chance;
      const speed = expected / (spentMs + this.cost.ms(numRows + i + 1));
      if (speed <= best) return;
      best = speed;
      bestCount = i + 1;
    });
    return bestCount;
  }

  #sharedBy(sequence: Sequence | undefined): Experience {
    return sequence?.isBackground === true ? this.#background : this.#foreground;
  }

  #requestOf(sequence: Sequence): RequestAcceptance {
    let request = this.#ofRequest.get(sequence);
    if (request === undefined) {
      request = {
        found: new Acceptance(NUM_LEVELS),
        byModel: new Acceptance(NUM_LEVELS),
        byModelOverall: new Acceptance(1),
      };
      this.#ofRequest.set(sequence, request);
    }
    return request;
  }
}
