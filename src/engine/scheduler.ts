/**
 * Decides what each step computes, under one token budget: first one token of every decoding sequence and its draft,
 * then chunks of prompts, of running and waiting sequences alike, in the policy's order. There are no phases: a
 * sequence's numComputedTokens chases its numTokens. When KV memory is short, the running sequence that is last in
 * order is pre-empted: its blocks are freed and it is computed again later. A step that pre-empts admits no sequence,
 * except one that may displace others. Background sequences are computed in steps that have nothing else to compute.
 */
import type { KvManager } from "./memory/kv-manager.js";
import type { SchedulingPolicy } from "./scheduling-policy.js";
import type { ScheduledSequence, Sequence } from "./step/sequence.js";

interface SchedulerOptions {
  readonly maxNumSeqs: number;
  /** Token budget of one step. */
  readonly maxNumBatchedTokens: number;
  /** Logit rows of one step beyond one for each sequence: prompt positions to score, drafted tokens to verify. */
  readonly maxExtraLogitRows: number;
  readonly isChunkedPrefillEnabled: boolean;
  /** Alternatives to drafted tokens of one step. */
  readonly numForks: number;
  /** Static batching: no sequence is admitted while others run. */
  readonly isBatchingStatic: boolean;
}

/** The pace of prompts; the scheduler asks at most once a step. */
interface StepAdvice {
  /**
   * Prompt tokens, at most `most`, that a step with `numDecodingRows` may compute without delaying those rows too long.
   * Not asked while requests wait for a seat.
   */
  promptTokensBeside(numDecodingRows: number, most: number): number;
  /**
   * Tokens, at most `most`, of a step of background sequences. A request that arrives during the step waits for its
   * end.
   */
  backgroundTokens(most: number): number;
}

/** Decoding sequences that may get drafts: `numRows` rows are planned, and `maxDraftRows` more fit. */
interface DraftRoom {
  readonly decoding: readonly Sequence[];
  readonly numRows: number;
  readonly maxDraftRows: number;
}

export class Scheduler {
  readonly running: Sequence[] = [];
  readonly waiting: Sequence[] = [];
  numPreemptions = 0;
  readonly #freeSeats: number[];
  #plan: Plan | undefined;
  #numBackground = 0;

  constructor(
    private readonly options: SchedulerOptions,
    private readonly kv: KvManager,
    private readonly policy: SchedulingPolicy,
    private readonly advice: StepAdvice,
  ) {
    this.#freeSeats = Array.from({ length: options.maxNumSeqs }, (_, i) => options.maxNumSeqs - 1 - i);
  }

  add(sequence: Sequence): void {
    this.policy.add(sequence);
    this.waiting.push(sequence);
    if (sequence.isBackground) this.#numBackground++;
  }

  /** Removes a finished or aborted sequence: its seat and blocks are free at once. */
  remove(sequence: Sequence): void {
    const list = sequence.seat >= 0 ? this.running : this.waiting;
    const index = list.indexOf(sequence);
    if (index >= 0) list.splice(index, 1);
    if (index >= 0 && sequence.isBackground) this.#numBackground--;
    this.#unseat(sequence);
    this.policy.remove(sequence);
  }

  /**
   * First half of a step's plan: one token of every decoding sequence.
   * @returns the sequences to draft for before the second half
   */
  planDecoding(): DraftRoom {
    const { maxNumBatchedTokens, maxExtraLogitRows, isChunkedPrefillEnabled, isBatchingStatic } = this.options;
    this.running.sort(this.#byPolicy);
    this.waiting.sort(this.#byPolicy);
    this.kv.beginStep();
    const isMixed = this.#numBackground > 0 && this.#numBackground < this.running.length + this.waiting.length;
    const isBackground = this.#numBackground > 0 && !isMixed;
    const running = isMixed ? this.running.filter(isForeground) : this.running;
    const prompts = running.filter((sequence) => numMissing(sequence) > 1);
    const plan: Plan = {
      isMixed,
      numTokens: isBackground ? this.#backgroundTokens(maxNumBatchedTokens) : maxNumBatchedTokens,
      numExtraLogits: maxExtraLogitRows,
      numNew: new Map(),
      prompts,
      maxPromptTokens: maxNumBatchedTokens,
      mayAdmit: this.running.length === 0 || !isBatchingStatic,
      preemptionsBefore: this.numPreemptions,
    };
    this.#plan = plan;
    for (const sequence of [...running]) if (numMissing(sequence) === 1) this.#continue(sequence, plan);
    const decoding = [...plan.numNew.keys()];
    if (decoding.length === 0) return { decoding, numRows: 0, maxDraftRows: 0 };
    const wanted = Math.min(
      plan.numTokens,
      sumMissing(isBatchingStatic ? prompts : [...prompts, ...this.#waitingIn(plan)]),
    );
    // While requests wait for a seat, prompts are not slowed down: the sooner they end, the sooner a seat is free.
    const isPaced = isChunkedPrefillEnabled && !this.#isCrowded(plan);
    plan.maxPromptTokens = isPaced ? this.advice.promptTokensBeside(decoding.length, wanted) : plan.numTokens;
    // Sequences that wait for memory need no rows yet.
    const numLikely = sumMissing([...prompts, ...this.#admissible(plan)]);
    const numPromptTokens = Math.min(plan.numTokens, numLikely, plan.maxPromptTokens);
    const numLeft = Math.min(
      plan.numTokens - numPromptTokens,
      plan.numExtraLogits - this.#numScoredPromptTokens(plan),
      this.kv.maxDraftTokens,
    );
    return {
      decoding: decoding.filter(({ numOutputTokens }) => numOutputTokens > 0),
      numRows: decoding.length + numPromptTokens,
      maxDraftRows: Math.max(0, numLeft),
    };
  }

  /** Second half of the plan: drafts as far as they fit, then prompts. */
  planDraftsAndPrompts(): ScheduledSequence[] {
    const plan = this.#plan!;
    this.#takeDrafts(plan);
    plan.numTokens = Math.min(plan.numTokens, plan.maxPromptTokens);
    const { prompts, mayAdmit, preemptionsBefore } = plan;
    const hasPreempted = () => this.numPreemptions > preemptionsBefore;
    this.#schedulePrompts(
      mayAdmit ? merge(prompts, this.#waitingIn(plan), this.#byPolicy) : prompts,
      plan,
      hasPreempted,
    );
    if (plan.isMixed && plan.numNew.size === 0) this.#scheduleBackground(plan, hasPreempted);
    return [...plan.numNew].map(([sequence, numNewTokens]) => ({ sequence, numNewTokens }));
  }

  /**
   * Plans background sequences when no others can be planned: under static batching, the others wait for a background
   * sequence to end.
   */
  #scheduleBackground(plan: Plan, hasPreempted: () => boolean): void {
    plan.isMixed = false;
    plan.numTokens = this.#backgroundTokens(plan.numTokens);
    const running = this.running.filter(({ isBackground }) => isBackground);
    for (const sequence of running) if (numMissing(sequence) === 1) this.#continue(sequence, plan);
    const prompts = this.running.filter((sequence) => sequence.isBackground && numMissing(sequence) > 1);
    const waiting = plan.mayAdmit ? this.waiting.filter(({ isBackground }) => isBackground) : [];
    this.#schedulePrompts(merge(prompts, waiting, this.#byPolicy), plan, hasPreempted);
  }

  #backgroundTokens(most: number): number {
    return this.options.isChunkedPrefillEnabled ? this.advice.backgroundTokens(most) : most;
  }

  /**
   * Prompts of running sequences and admissions, in order. The first sequence that cannot be admitted ends admission:
   * smaller ones would overtake it for ever.
   */
  #schedulePrompts(candidates: readonly Sequence[], plan: Plan, hasPreempted: () => boolean): void {
    let isAdmitting = true;
    for (const sequence of candidates) {
      if (sequence.seat >= 0) {
        if (plan.numTokens > 0) this.#continue(sequence, plan);
        continue;
      }
      const isBudgetLeft = plan.numTokens > 0 || this.options.isBatchingStatic;
      if (!isAdmitting || !isBudgetLeft || this.kv.shouldWaitForLeader(sequence)) continue;
      const hasRoom = this.#freeSeats.length > 0 && !hasPreempted();
      if (!(hasRoom && this.#admit(sequence, plan)) && !this.#displaceFor(sequence, plan)) isAdmitting = false;
    }
  }

  /**
   * Plans the next tokens of a running sequence. Pre-empts from the end of the order while memory is short, the
   * sequence itself last.
   */
  #continue(sequence: Sequence, plan: Plan): void {
    if (sequence.seat < 0) return;
    const isMoreStored = numMissing(sequence) > 1 && this.kv.restore(sequence);
    const numNewTokens = this.#chunk(sequence, plan, isMoreStored);
    if (numNewTokens === 0) return;
    while (!this.kv.ensureCapacity(sequence, sequence.numComputedTokens + numNewTokens)) {
      // `running` is not in order: sequences admitted in this step stand at its end.
      const last = this.running.reduce((a, b) => (this.#byPolicy(a, b) > 0 ? a : b));
      this.#preempt(last, plan);
      if (last === sequence) return;
    }
    this.#take(sequence, numNewTokens, plan);
  }

  /** Admits a waiting sequence if this step can compute some of its tokens and memory holds all its present ones. */
  #admit(sequence: Sequence, plan: Plan): boolean {
    this.kv.attachPrefix(sequence);
    const hasRoom = this.kv.hasRoomFor(sequence, this.kv.promisedTo(this.running));
    const isMoreStored = hasRoom && this.kv.restore(sequence);
    const numNewTokens = this.#chunk(sequence, plan, isMoreStored);
    if (
      !hasRoom ||
      !this.#mayStart(numNewTokens) ||
      !this.kv.ensureCapacity(sequence, sequence.numComputedTokens + numNewTokens)
    ) {
      this.kv.release(sequence);
      return false;
    }
    if (sequence.numAdmissions++ === 0) this.kv.countFirstAdmission(sequence);
    sequence.seat = this.#freeSeats.pop()!;
    this.waiting.splice(this.waiting.indexOf(sequence), 1);
    this.running.push(sequence);
    if (numNewTokens > 0) this.#take(sequence, numNewTokens, plan);
    return true;
  }

  /** Only a static batch admits sequences that get no token in this step. */
  #mayStart(numNewTokens: number): boolean {
    return numNewTokens > 0 || this.options.isBatchingStatic;
  }

  /**
   * Admits a sequence in place of running ones that the policy orders after it: pre-empts as many as needed, or none.
   */
  #displaceFor(sequence: Sequence, plan: Plan): boolean {
    const chosen: Sequence[] = [];
    const staying = [...this.running].sort(this.#byPolicy);
    const mayDisplace = (victim: Sequence) => {
      if (sequence.isBackground !== victim.isBackground) return victim.isBackground;
      return this.policy.mayDisplace(sequence, victim, staying, this.#freeSeats.length + chosen.length === 0);
    };
    if (!staying.some(mayDisplace)) return false;
    const fits = () => {
      const hasSeat = this.#freeSeats.length + chosen.length > 0;
      return hasSeat && this.kv.hasRoomFor(sequence, this.kv.promisedTo(staying), chosen);
    };
    // Attached first, since cached blocks need no new memory.
    this.kv.attachPrefix(sequence);
    for (const victim of [...staying].reverse()) {
      if (fits()) break;
      if (!mayDisplace(victim)) continue;
      staying.splice(staying.indexOf(victim), 1);
      chosen.push(victim);
    }
    const isAdmitted =
      chosen.length > 0 && fits() && this.#mayStart(this.#chunk(sequence, budgetAfter(plan, chosen), false));
    this.kv.release(sequence);
    if (!isAdmitted) return false;
    for (const victim of chosen) this.#preempt(victim, plan);
    return this.#admit(sequence, plan);
  }

  /** Pre-empts the victim: frees its blocks, and returns its rows and draft to the step's budget. */
  #preempt(victim: Sequence, plan: Plan): void {
    this.running.splice(this.running.indexOf(victim), 1);
    Object.assign(plan, budgetAfter(plan, [victim]));
    plan.numNew.delete(victim);
    this.#unseat(victim);
    this.waiting.push(victim);
    this.numPreemptions++;
  }

  #take(sequence: Sequence, numNewTokens: number, plan: Plan): void {
    plan.numTokens -= numNewTokens;
    plan.numExtraLogits -= numScored(sequence, numNewTokens);
    plan.numNew.set(sequence, numNewTokens);
    this.#charge(sequence, sequence.numComputedTokens + numNewTokens);
  }

  /** Charges the tenant for positions up to `end`, each once, however often they are computed again. */
  #charge(sequence: Sequence, end: number): void {
    const begin = Math.max(sequence.numComputedTokens, sequence.numChargedTokens);
    if (begin >= end) return;
    const numPrompt = Math.max(0, Math.min(end, sequence.numPromptTokens) - begin);
    this.policy.charge(sequence, numPrompt, end - begin - numPrompt);
    sequence.numChargedTokens = end;
  }

  /** Drafts take only spare budget and free blocks, never another sequence's. */
  #takeDrafts(plan: Plan): void {
    let numForks = this.options.numForks;
    let numDrafts = this.kv.maxDraftTokens;
    for (const sequence of plan.numNew.keys()) {
      const numAllowed = Math.max(0, this.kv.draftEnd(sequence) - sequence.numTokens);
      const most = Math.min(numAllowed, numDrafts, plan.numTokens, plan.numExtraLogits);
      const numDraftTokens = Math.min(sequence.numDraftTokens, most);
      const hasRoom = numDraftTokens > 0 && this.kv.ensureCapacity(sequence, sequence.numTokens + numDraftTokens);
      sequence.numDraftTokens = hasRoom ? numDraftTokens : 0;
      numDrafts -= sequence.numDraftTokens;
      const numLeft = Math.min(plan.numTokens, plan.numExtraLogits) - sequence.numDraftTokens;
      sequence.alternatives = hasRoom ? sequence.alternatives.slice(0, Math.min(numForks, numLeft)) : [];
      numForks -= sequence.alternatives.length;
      plan.numTokens -= sequence.numDraftRows;
      plan.numExtraLogits -= sequence.numDraftRows;
    }
  }

  /** Background sequences are last. */
  readonly #byPolicy = (a: Sequence, b: Sequence): number =>
    a.isBackground === b.isBackground ? this.policy.compare(a, b) : a.isBackground ? 1 : -1;

  #isCrowded(plan: Plan): boolean {
    return this.#waitingIn(plan).length > 0 && this.#freeSeats.length === 0;
  }

  /** The waiting sequences that the step may admit. */
  #waitingIn({ isMixed }: Plan): readonly Sequence[] {
    return isMixed ? this.waiting.filter(isForeground) : this.waiting;
  }

  /** Prompt tokens that this step could score, of running sequences and of those it may admit. */
  #numScoredPromptTokens(plan: Plan): number {
    return [...this.running, ...this.#admissible(plan)].reduce(
      (sum, each) => sum + numScored(each, numMissing(each)),
      0,
    );
  }

  /** The waiting sequences in order, up to the first for which a seat or memory is missing. */
  #admissible(plan: Plan): readonly Sequence[] {
    if (this.options.isBatchingStatic) return [];
    const next = this.#waitingIn(plan).slice(0, this.#freeSeats.length);
    if (next.length === 0) return next;
    const promised = this.kv.promisedTo(this.running);
    const end = next.findIndex((sequence) => !this.kv.hasRoomFor(sequence, promised));
    return end < 0 ? next : next.slice(0, end);
  }

  /**
   * How many of the sequence's missing tokens this step computes: one block, where the store has the block after it for
   * the next step.
   */
  #chunk(sequence: Sequence, plan: Budget, isMoreStored: boolean): number {
    const missing = Math.min(numMissing(sequence), this.kv.stepEnd(sequence) - sequence.numComputedTokens);
    if (isMoreStored && this.options.isChunkedPrefillEnabled) return Math.min(this.kv.blockSize, plan.numTokens);
    const allowed = Math.min(missing, plan.numTokens, numScored(sequence, missing) > 0 ? plan.numExtraLogits : missing);
    if (allowed < missing && !this.options.isChunkedPrefillEnabled && plan.numTokens < missing) return 0;
    return Math.max(0, allowed);
  }

  #unseat(sequence: Sequence): void {
    this.kv.release(sequence);
    if (sequence.seat >= 0) this.#freeSeats.push(sequence.seat);
    sequence.seat = -1;
    sequence.numDraftTokens = 0;
    sequence.alternatives = [];
  }
}

/** Rows that a step can still take. */
interface Budget {
  readonly numTokens: number;
  readonly numExtraLogits: number;
}

/** A step under construction: the budget left, and the tokens planned. */
interface Plan extends Budget {
  /** There are background sequences and others: only the others are computed, if any can be. */
  isMixed: boolean;
  numTokens: number;
  numExtraLogits: number;
  readonly numNew: Map<Sequence, number>;
  /** Running sequences with more than one missing token. */
  readonly prompts: readonly Sequence[];
  /** Upper bound of prompt tokens. */
  maxPromptTokens: number;
  readonly mayAdmit: boolean;
  /** `numPreemptions` before this step. */
  readonly preemptionsBefore: number;
}

/** The step's budget once the victims are pre-empted. */
function budgetAfter({ numTokens, numExtraLogits, numNew }: Plan, victims: readonly Sequence[]): Budget {
  const returned = victims.map((victim) => {
    const numNewTokens = numNew.get(victim) ?? 0;
    const { numDraftRows } = victim;
    return { tokens: numNewTokens + numDraftRows, logits: numScored(victim, numNewTokens) + numDraftRows };
  });
  return {
    numTokens: returned.reduce((sum, { tokens }) => sum + tokens, numTokens),
    numExtraLogits: returned.reduce((sum, { logits }) => sum + logits, numExtraLogits),
  };
}

const isForeground = ({ isBackground }: Sequence): boolean => !isBackground;

const numMissing = ({ numTokens, numComputedTokens }: Sequence): number => numTokens - numComputedTokens;

const sumMissing = (sequences: readonly Sequence[]): number =>
  sequences.reduce((sum, sequence) => sum + numMissing(sequence), 0);

/** Merges two ordered lists. */
function merge(
  a: readonly Sequence[],
  b: readonly Sequence[],
  compare: (a: Sequence, b: Sequence) => number,
): Sequence[] {
  return [...a, ...b].sort(compare);
}

/** How many of the next `numNewTokens` positions precede a prompt token that still needs its log-probability. */
function numScored(sequence: Sequence, numNewTokens: number): number {
  if (sequence.promptLogprobs === undefined) return 0;
  const first = Math.max(sequence.numComputedTokens, sequence.promptLogprobs.length - 1);
  const end = Math.min(sequence.numComputedTokens + numNewTokens, sequence.numPromptTokens - 1);
  return Math.max(0, end - first);
}
