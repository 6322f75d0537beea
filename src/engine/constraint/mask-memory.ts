/**
 * Memory shared by the engine's thread and a grammar thread: a header, and for each seat a slot with the masks of its
 * next position and of the positions after each drafted token. The grammar thread writes a slot, then its ticket. The
 * engine reads the slot once it holds the awaited ticket.
 */

/** Words of the header. */
const BUSY = 0;
const JOBS = 1;
const HEADER_WORDS = 16;

/**
 * The value of `busy` after the grammar thread has finished that many messages: each message begins a job and ends it.
 */
export function jobAfter(numMessages: number): number {
  return (2 * numMessages) | 0;
}

/** Words of a slot before its flags. */
const TICKET = 0;
const NUM_MASKS = 1;
const SLOT_WORDS = 2;

/** Only stop tokens are allowed. */
export const ONLY_STOP = 1;
/** No token is allowed: the vocabulary cannot spell the text that the grammar requires. */
export const NOTHING = 2;

/** A position's mask, in memory that does not change until the sequence moves on. */
export interface PositionMask {
  /** One bit per token. */
  readonly words: Int32Array;
  readonly isOnlyStop: boolean;
}

export interface MaskShape {
  readonly numSlots: number;
  /** 1 + tokens of the longest draft. */
  readonly masksPerSlot: number;
  readonly vocabSize: number;
}

export class MaskMemory {
  readonly numWords: number;
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #slotWords: number;

  constructor(
    readonly shape: MaskShape,
    /** A word shared by the memories of all threads. */
    readonly wakeWord: Int32Array<SharedArrayBuffer>,
    readonly buffer: SharedArrayBuffer = new SharedArrayBuffer(bytesOf(shape)),
  ) {
    this.numWords = maskWords(shape);
    this.#slotWords = slotWords(shape);
    this.#words = new Int32Array(buffer);
  }

  /** The grammar thread begins a job for a request, or ends it with 0. */
  setBusy(requestId: number): void {
    Atomics.store(this.#words, BUSY, requestId);
    Atomics.add(this.#words, JOBS, 1);
  }

  /**
   * The request of the current job (0: none), and a number that changes whenever a job begins or ends; see `jobAfter`.
   */
  busy(): { readonly requestId: number; readonly job: number } {
    return { requestId: Atomics.load(this.#words, BUSY), job: Atomics.load(this.#words, JOBS) };
  }

  announce(): void {
    Atomics.add(this.wakeWord, 0, 1);
    Atomics.notify(this.wakeWord, 0);
  }

  setMask(slot: number, index: number, mask: Int32Array, flags: number): void {
    const start = this.#start(slot);
    this.#words[start + SLOT_WORDS + index] = flags;
    this.#words.set(mask, start + SLOT_WORDS + this.shape.masksPerSlot + index * this.numWords);
  }

  finish(slot: number, numMasks: number, ticket: number): void {
    const start = this.#start(slot);
    this.#words[start + NUM_MASKS] = numMasks;
    Atomics.store(this.#words, start + TICKET, ticket);
    this.announce();
  }

  ticket(slot: number): number {
    return Atomics.load(this.#words, this.#start(slot) + TICKET);
  }

  numMasks(slot: number): number {
    return this.#words[this.#start(slot) + NUM_MASKS]!;
  }

  flags(slot: number, index: number): number {
    return this.#words[this.#start(slot) + SLOT_WORDS + index]!;
  }

  mask(slot: number, index: number): Int32Array {
    const start = this.#start(slot) + SLOT_WORDS + this.shape.masksPerSlot + index * this.numWords;
    return this.#words.subarray(start, start + this.numWords);
  }

  #start(slot: number): number {
    return HEADER_WORDS + slot * this.#slotWords;
  }
}

function maskWords({ vocabSize }: MaskShape): number {
  return Math.ceil(vocabSize / 32);
}

function slotWords(shape: MaskShape): number {
  return SLOT_WORDS + shape.masksPerSlot * (1 + maskWords(shape));
}

function bytesOf(shape: MaskShape): number {
  return 4 * (HEADER_WORDS + shape.numSlots * slotWords(shape));
}
