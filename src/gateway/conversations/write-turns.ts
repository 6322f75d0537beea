/**
 * Limits the writes of conversations: for each client one at a time and so many a minute, and for all clients a number
 * at once.
 */
import { MillraceError } from "../../core/errors.js";

/** Writes whose bodies are held at once. */
const MOST_AT_ONCE = 32;
/** Writes that a client may begin at once after a pause; PER_SECOND is the rate that it may keep up forever. */
const BURST = 60;
const PER_SECOND = 1;
/** A client that has not written for this long has its whole burst again, and is forgotten. */
const FULL_AFTER_MS = (1000 * BURST) / PER_SECOND;

interface Writer {
  /** Writes that the client may begin at `atMs`. */
  left: number;
  atMs: number;
  isWriting: boolean;
}

export class WriteTurns {
  readonly #writers = new Map<string, Writer>();
  #numWriting = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Throws, or rejects with, rate_limit_exceeded if the client, or all clients together, write too much. */
  async run<T>(owner: string, write: () => Promise<T>): Promise<T> {
    const writer = this.#writerOf(owner);
    if (writer.isWriting) throw tooMany("one write of a client at a time", 1);
    if (this.#numWriting >= MOST_AT_ONCE) throw tooMany(`at most ${MOST_AT_ONCE} writes at once`, 1);
    if (writer.left < 1) {
      const seconds = Math.ceil((1 - writer.left) / PER_SECOND);
      throw tooMany(`at most ${60 * PER_SECOND} writes a minute of a client`, seconds);
    }
    writer.left--;
    writer.isWriting = true;
    this.#numWriting++;
    try {
      return await write();
    } finally {
      writer.isWriting = false;
      this.#numWriting--;
    }
  }

  #writerOf(owner: string): Writer {
    const nowMs = this.now();
    const known = this.#writers.get(owner);
    const writer = known ?? { left: BURST, atMs: nowMs, isWriting: false };
    writer.left = Math.min(BURST, writer.left + ((nowMs - writer.atMs) / 1000) * PER_SECOND);
    writer.atMs = nowMs;
    // The client that wrote last comes last in the map.
    this.#writers.delete(owner);
    this.#writers.set(owner, writer);
    for (const [oldest, { atMs, isWriting }] of this.#writers) {
      if (isWriting || nowMs - atMs < FULL_AFTER_MS) break;
      this.#writers.delete(oldest);
    }
    return writer;
  }
}

function tooMany(expected: string, retryAfterSeconds: number): MillraceError {
  return new MillraceError("rate_limit_exceeded", `expected ${expected}, got more`, { retryAfterSeconds });
}
