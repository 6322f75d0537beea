/**
 * Decides what each step computes: running sequences first, then waiting ones, under one token budget; long prompts in chunks. There are no
 * phases: a sequence's numComputedTokens chases its numTokens. When KV memory is short the youngest running sequence gives its blocks back
 * and is computed again later; nothing is admitted in a step that pre-empted.
 */
import type { KvManager } from "./kv/kv-manager.js";
import type { Sequence } from "./sequence.js";

export interface SchedulerOptions {
  readonly maxNumSeqs: number;
  /** Tokens one step may compute. */
  readonly maxNumBatchedTokens: number;
  /** Rows one step may add that need logits beside each sequence's last: prompt positions to score, drafted tokens to check. */
  readonly maxExtraLogitRows: number;
  readonly isChunkedPrefillEnabled: boolean;
  /** Nothing is admitted while a batch runs. */
  readonly isBatchingStatic: boolean;
}

/** `numNewTokens` of `sequence`, from its numComputedTokens on, are computed in this step, and after the last of them its draft. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  readonly numNewTokens: number;
}

export class Scheduler {
  /** In order of admission; the last is the first to be pre-empted. */
  readonly running: Sequence[] = [];
  /** In order of arrival; pre-empted sequences come back to the front. */
  readonly waiting: Sequence[] = [];
  numPreemptions = 0;
  readonly #freeSeats: number[];

  constructor(
    private readonly options: SchedulerOptions,
    private readonly kv: KvManager,
  ) {
    this.#freeSeats = Array.from({ length: options.maxNumSeqs }, (_, i) => options.maxNumSeqs - 1 - i);
  }

  add(sequence: Sequence): void {
    this.waiting.push(sequence);
  }

  /** Rows the coming step computes, drafts aside; as many as it may when something could be admitted. */
  get numRowsAhead(): number {
    const { maxNumBatchedTokens } = this.options;
    if (this.waiting.length > 0 && this.#freeSeats.length > 0) return maxNumBatchedTokens;
    const numMissing = this.running.reduce(
      (sum, { numTokens, numComputedTokens }) => sum + numTokens - numComputedTokens,
      0,
    );
    return Math.min(maxNumBatchedTokens, numMissing);
  }

  /** The sequence is over (finished or aborted): its seat and blocks are free at once. */
  remove(sequence: Sequence): void {
    const list = sequence.seat >= 0 ? this.running : this.waiting;
    const index = list.indexOf(sequence);
    if (index >= 0) list.splice(index, 1);
    this.#unseat(sequence);
  }

  schedule(): ScheduledSequence[] {
    const budget = { tokens: this.options.maxNumBatchedTokens, extraLogits: this.options.maxExtraLogitRows };
    const scheduled: ScheduledSequence[] = [];
    const hasPreempted = this.#scheduleRunning(budget, scheduled);
    for (const { sequence, numNewTokens } of scheduled) this.#cutDraft(sequence, numNewTokens, budget, hasPreempted);
    if (!hasPreempted) this.#admit(budget, scheduled);
    return scheduled;
  }

  #scheduleRunning(budget: Budget, scheduled: ScheduledSequence[]): boolean {
    const preemptionsBefore = this.numPreemptions;
    for (let index = 0; index < this.running.length && budget.tokens > 0; index++) {
      const sequence = this.running[index]!;
      const numNewTokens = this.#chunk(sequence, budget);
      if (numNewTokens === 0) continue;
      if (!this.#makeRoom(sequence, numNewTokens)) break;
      take(budget, sequence, numNewTokens);
      scheduled.push({ sequence, numNewTokens });
    }
    return this.numPreemptions > preemptionsBefore;
  }

  /** Pre-empts from the end until `sequence` fits; false when it had to give way itself. */
  #makeRoom(sequence: Sequence, numNewTokens: number): boolean {
    while (!this.kv.ensureCapacity(sequence, sequence.numComputedTokens + numNewTokens)) {
      const victim = this.running.pop()!;
      this.#unseat(victim);
      this.waiting.unshift(victim);
      this.numPreemptions++;
      if (victim === sequence) return false;
    }
    return true;
  }

  #admit(budget: Budget, scheduled: ScheduledSequence[]): void {
    const { isBatchingStatic } = this.options;
    if (isBatchingStatic && this.running.length > 0) return;
    let index = 0;
    while (index < this.waiting.length && this.#freeSeats.length > 0 && (budget.tokens > 0 || isBatchingStatic)) {
      const sequence = this.waiting[index]!;
      if (this.kv.shouldWaitForLeader(sequence)) {
        index++;
        continue;
      }
      if (!this.#seat(sequence, budget, scheduled)) return;
      this.waiting.splice(index, 1);
    }
  }

  /** Admits one sequence if this step can compute something of it and the memory holds all its present tokens. */
  #seat(sequence: Sequence, budget: Budget, scheduled: ScheduledSequence[]): boolean {
    this.kv.attachPrefix(sequence);
    const numNewTokens = this.#chunk(sequence, budget);
    const isComputable = numNewTokens > 0 || this.options.isBatchingStatic;
    if (!isComputable || !this.kv.hasRoomFor(sequence, sequence.numTokens)) {
      this.kv.release(sequence);
      return false;
    }
    this.kv.ensureCapacity(sequence, sequence.numComputedTokens + numNewTokens);
    if (sequence.numAdmissions++ === 0) this.kv.countFirstAdmission(sequence);
    sequence.seat = this.#freeSeats.pop()!;
    this.running.push(sequence);
    take(budget, sequence, numNewTokens);
    if (numNewTokens > 0) scheduled.push({ sequence, numNewTokens });
    return true;
  }

  /** Leaves of the draft what fits this step without taking anything from anybody. */
  #cutDraft(sequence: Sequence, numNewTokens: number, budget: Budget, isMemoryShort: boolean): void {
    const isCheckable = !isMemoryShort && sequence.numComputedTokens + numNewTokens === sequence.numTokens;
    const numDraftTokens = isCheckable ? Math.min(sequence.numDraftTokens, budget.tokens, budget.extraLogits) : 0;
    const hasRoom = numDraftTokens > 0 && this.kv.ensureCapacity(sequence, sequence.numTokens + numDraftTokens);
    sequence.numDraftTokens = hasRoom ? numDraftTokens : 0;
    budget.tokens -= sequence.numDraftTokens;
    budget.extraLogits -= sequence.numDraftTokens;
  }

  /** How many of the sequence's missing tokens this step may compute. */
  #chunk(sequence: Sequence, budget: Budget): number {
    const missing = sequence.numTokens - sequence.numComputedTokens;
    const allowed = Math.min(missing, budget.tokens, numScored(sequence, missing) > 0 ? budget.extraLogits : missing);
    if (allowed < missing && !this.options.isChunkedPrefillEnabled && budget.tokens < missing) return 0;
    return allowed;
  }

  #unseat(sequence: Sequence): void {
    this.kv.release(sequence);
    if (sequence.seat >= 0) this.#freeSeats.push(sequence.seat);
    sequence.seat = -1;
    sequence.numDraftTokens = 0;
    sequence.numTableEntriesWritten = 0;
  }
}

interface Budget {
  tokens: number;
  extraLogits: number;
}

function take(budget: Budget, sequence: Sequence, numNewTokens: number): void {
  budget.tokens -= numNewTokens;
  budget.extraLogits -= numScored(sequence, numNewTokens);
}

/** Of the next `numNewTokens` positions, those whose successor is a prompt token that still needs its log-probability. */
function numScored(sequence: Sequence, numNewTokens: number): number {
  if (sequence.promptLogprobs === undefined) return 0;
  const first = Math.max(sequence.numComputedTokens, sequence.promptLogprobs.length - 1);
  const end = Math.min(sequence.numComputedTokens + numNewTokens, sequence.numPromptTokens - 1);
  return Math.max(0, end - first);
}
