/**
 * Holds constrained sequences to their grammars: compiles before admission, requests the next mask while other
 * sequences compute, and cuts drafts that the grammar refuses. Masks depend on grammar and output alone, so exactness
 * holds.
 */
import { MillraceError } from "../../core/errors.js";
import { type ConstraintStats, NO_CONSTRAINTS } from "../api/stats.js";
import type { ScheduledSequence, Sequence } from "../step/sequence.js";
import type { GrammarLanes } from "./grammar-lanes.js";
import { type MaskMemory, NOTHING, ONLY_STOP, type PositionMask } from "./mask-memory.js";

export interface FailedSequence {
  readonly sequence: Sequence;
  readonly error: MillraceError;
}

/** Longest wait for masks in a step that also computes other sequences. */
const PATIENCE_MS = 20;
/** Longest wait in a step without other sequences, so that mail is read in between. */
const SLICE_MS = 5;
/** Interval of checks on compiles whose requests are gone. */
const WATCH_MS = 500;

interface Constrained {
  readonly sequence: Sequence;
  isOpen: boolean;
  /** Output tokens already sent to the grammar thread. */
  numSent: number;
  /** Slot, length and draft of the last request for masks. */
  slot: number;
  numTokens: number;
  numDrafted: number;
  ticket: number;
  /** A step has waited in vain for the masks requested last. */
  isLate: boolean;
}

export class Constraints {
  readonly #byId = new Map<number, Constrained>();
  /** By slot: ticket of the last request for masks. */
  readonly #ticketOfSlot = new Map<number, number>();
  #ticket = 0;
  #watcher: NodeJS.Timeout | undefined;
  #stats = NO_CONSTRAINTS;

  constructor(private readonly lanes: GrammarLanes) {}

  get stats(): ConstraintStats {
    return { ...this.#stats, ...this.lanes.counts };
  }

  get numCompiling(): number {
    let count = 0;
    for (const { isOpen } of this.#byId.values()) if (!isOpen) count++;
    return count;
  }

  /** Is the grammar still compiling, so that the sequence cannot be scheduled? */
  isCompiling(sequence: Sequence): boolean {
    return this.#byId.get(sequence.id)?.isOpen === false;
  }

  add(sequence: Sequence, recipe: string): void {
    const constrained = {
      sequence,
      isOpen: false,
      numSent: 0,
      slot: -1,
      numTokens: -1,
      numDrafted: 0,
      ticket: 0,
      isLate: false,
    };
    this.#byId.set(sequence.id, constrained);
    this.#count({ numRequests: 1 });
    this.lanes.open({
      requestId: sequence.id,
      tenant: sequence.tenant,
      recipe,
      stopTokenIds: sequence.sampling.stopTokenIds,
      outputTokens: () => [...sequence.tokens.subarray(sequence.numPromptTokens, sequence.numTokens)],
    });
  }

  remove(sequence: Sequence): void {
    if (!this.#byId.delete(sequence.id)) return;
    this.lanes.close(sequence.id);
    this.#watch();
  }

  /** Reads the events of the grammar threads. @returns sequences that may be scheduled from now on, and failed ones */
  poll(): { readonly opened: readonly Sequence[]; readonly failed: readonly FailedSequence[] } {
    const opened: Sequence[] = [];
    const failed: FailedSequence[] = [];
    if (this.#byId.size === 0 && !this.lanes.isBusy) return { opened, failed };
    for (const event of this.lanes.poll()) {
      const constrained = this.#byId.get(event.requestId);
      if (constrained === undefined) continue;
      const { sequence } = constrained;
      if (event.kind === "failed") failed.push({ sequence, error: event.error });
      else if (event.kind === "restarted") {
        constrained.numSent = sequence.numOutputTokens;
        constrained.numTokens = -1;
      } else {
        constrained.isOpen = true;
        opened.push(sequence);
      }
    }
    return { opened, failed };
  }

  /** Waits briefly for grammars under compilation. */
  waitForGrammars(): void {
    this.lanes.waitForWake(this.lanes.numWakes, SLICE_MS);
  }

  /**
   * Selects the sequences that the step can compute: unconstrained ones, and those with their masks. Drafts end where
   * the grammar refuses a token or leaves none after it.
   * @param patienceMs longest delay for the other sequences
   */
  ready(scheduled: readonly ScheduledSequence[], patienceMs = PATIENCE_MS): readonly ScheduledSequence[] {
    if (this.#byId.size === 0) return scheduled;
    const awaited: Constrained[] = [];
    for (const { sequence, numNewTokens } of scheduled) {
      const constrained = this.#byId.get(sequence.id);
      if (constrained === undefined) continue;
      this.#ask(constrained, sequence.numDraftTokens);
      if (sequence.numComputedTokens + numNewTokens >= sequence.numTokens) awaited.push(constrained);
    }
    if (awaited.length === 0) return scheduled;
    const isOthersToo = awaited.length < scheduled.length;
    this.#await(
      isOthersToo ? awaited.filter(({ isLate }) => !isLate) : awaited,
      isOthersToo ? Math.min(patienceMs, PATIENCE_MS) : SLICE_MS,
    );
    const late = new Set<Sequence>();
    for (const constrained of awaited) {
      constrained.isLate = !this.#isThere(constrained);
      if (constrained.isLate) late.add(constrained.sequence);
    }
    for (const constrained of awaited) {
      const { sequence } = constrained;
      sequence.numDraftTokens = late.has(sequence)
        ? 0
        : Math.min(sequence.numDraftTokens, this.#numUsable(constrained));
    }
    if (late.size === 0) return scheduled;
    this.#count({ numSkippedSteps: late.size });
    return scheduled.filter(({ sequence }) => !late.has(sequence));
  }

  /** Number of drafted tokens that the grammar allows and that leave a token to follow. */
  #numUsable({ sequence, slot }: Constrained): number {
    const memory = this.#memoryOf(sequence);
    const numAllowed = memory.numMasks(slot) - 1;
    for (let ahead = 1; ahead <= numAllowed; ahead++) if ((memory.flags(slot, ahead) & NOTHING) !== 0) return ahead - 1;
    return numAllowed;
  }

  /** The mask for the token `ahead` places after the sequence's next one; undefined: all tokens are allowed. */
  maskOf(sequence: Sequence, ahead: number): PositionMask | undefined {
    const constrained = this.#byId.get(sequence.id);
    if (constrained === undefined) return undefined;
    const memory = this.#memoryOf(sequence);
    const flags = memory.flags(constrained.slot, ahead);
    return { words: memory.mask(constrained.slot, ahead), isOnlyStop: (flags & ONLY_STOP) !== 0 };
  }

  /** The sequences to which the grammar leaves no token. */
  stranded(scheduled: readonly ScheduledSequence[]): readonly FailedSequence[] {
    if (this.#byId.size === 0) return [];
    const failed: FailedSequence[] = [];
    for (const { sequence } of scheduled) {
      const constrained = this.#byId.get(sequence.id);
      if (constrained === undefined || !this.#isThere(constrained)) continue;
      if ((this.#memoryOf(sequence).flags(constrained.slot, 0) & NOTHING) === 0) continue;
      const problem = "expected tokens in the vocabulary that spell what the grammar asks for next, got none";
      failed.push({ sequence, error: new MillraceError("invalid_grammar", problem) });
    }
    return failed;
  }

  /** The sequence has new tokens and goes on: requests its next mask early. */
  advance(sequence: Sequence): void {
    const constrained = this.#byId.get(sequence.id);
    if (constrained !== undefined) this.#ask(constrained, 0);
  }

  close(): void {
    clearTimeout(this.#watcher);
    this.lanes.stop();
  }

  /**
   * An idle engine takes no steps and so reads no events: without this timer, a hanging grammar would keep a core busy.
   */
  #watch(): void {
    clearTimeout(this.#watcher);
    if (this.#byId.size > 0 || !this.lanes.isBusy) return;
    this.#watcher = setTimeout(() => {
      // Steps read events themselves.
      if (this.#byId.size === 0) this.poll();
      this.#watch();
    }, WATCH_MS).unref();
  }

  /** Requests the masks for the sequence's next token and after each drafted one, unless they were requested before. */
  #ask(constrained: Constrained, numDrafted: number): void {
    const { sequence } = constrained;
    const { seat, numTokens, numPromptTokens, tokens } = sequence;
    if (seat < 0) return;
    const isOwnSlot = constrained.slot === seat && this.#ticketOfSlot.get(seat) === constrained.ticket;
    const hasFirst = isOwnSlot && constrained.numTokens === numTokens;
    if (hasFirst && constrained.numDrafted > 0) {
      // The masks are late. Requesting them again at every step would keep them late for ever.
      sequence.numDraftTokens = 0;
      return;
    }
    if (hasFirst && numDrafted === 0) return;
    // 32 bits, as in shared memory; tickets wrap around after weeks.
    this.#ticket = (this.#ticket + 1) | 0;
    const ticket = this.#ticket;
    this.lanes.sendMasks({
      kind: "masks",
      requestId: sequence.id,
      slot: seat,
      ticket,
      tokenIds: [...tokens.subarray(numPromptTokens + constrained.numSent, numTokens)],
      hasFirst,
      draft: [...tokens.subarray(numTokens, numTokens + numDrafted)],
    });
    constrained.numSent = numTokens - numPromptTokens;
    this.#ticketOfSlot.set(seat, ticket);
    Object.assign(constrained, { slot: seat, numTokens, numDrafted, ticket, isLate: false });
  }

  #isThere({ sequence, slot, ticket }: Constrained): boolean {
    return this.#memoryOf(sequence).ticket(slot) === ticket;
  }

  /** An open sequence always has mask memory. */
  #memoryOf({ id }: Sequence): MaskMemory {
    return this.lanes.memoryOf(id)!;
  }

  #await(awaited: readonly Constrained[], patienceMs: number): void {
    const startMs = performance.now();
    for (;;) {
      const { numWakes } = this.lanes;
      if (awaited.every((constrained) => this.#isThere(constrained))) break;
      const leftMs = startMs + patienceMs - performance.now();
      if (leftMs <= 0) break;
      this.lanes.waitForWake(numWakes, leftMs);
    }
    this.#count({ maskWaitMs: performance.now() - startMs });
  }

  #count(more: Partial<ConstraintStats>): void {
    const counts = Object.entries(more) as [keyof ConstraintStats, number][];
    this.#stats = { ...this.#stats };
    for (const [name, count] of counts) Object.assign(this.#stats, { [name]: this.#stats[name] + count });
  }
}
