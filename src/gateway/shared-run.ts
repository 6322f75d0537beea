/**
 * One run of a request, with several clients as readers of its answer: each reads from the beginning, at its own pace.
 * The first client that is still there sets the pace of the run; the others are dropped if they fall too far behind.
 * The run goes on while anybody reads, and for `lingerMs` after.
 */
import { MillraceError } from "../core/errors.js";
import type { AnswerHead, AnswerSink } from "./answer.js";
import { Cancellation } from "./cancellation.js";
import type { Ending } from "./pipeline.js";

export interface SharedRunOptions {
  /** A longer answer is not kept and takes no new readers, and no reader may be further behind than this. */
  readonly maxBytes: number;
  /** Time for which the run continues without readers. */
  readonly lingerMs: number;
  /** A whole answer may be read until `close` is called, not only while the run goes on. */
  readonly staysOpen?: boolean;
}

/** A whole answer as the run got it. */
export interface RunAnswer {
  readonly head: AnswerHead;
  readonly body: Buffer;
  /** In alternation: the end of a write in bytes, and its time since the run's beginning in milliseconds. */
  readonly marks: readonly number[];
}

export interface RunResult {
  readonly ending: Ending;
  /** Undefined if the answer is not whole, or too long. */
  readonly answer: RunAnswer | undefined;
}

/**
 * Statuses that depend on the moment and not on the request: the other requests that share the run are sent on their
 * own.
 */
const OF_THE_MOMENT: readonly number[] = [401, 403, 408, 425, 429];
const MAX_CHUNKS = 1 << 16;

const isOfTheMoment = (status: number): boolean => status >= 500 || OF_THE_MOMENT.includes(status);

interface Reader {
  readonly sink: AnswerSink;
  readonly isOwner: boolean;
  /** Index of the reader's next chunk. */
  next: number;
  hasBegun: boolean;
  isBlocked: boolean;
  /** Called with undefined if the run has nothing for the reader, which has received nothing. */
  readonly settle: (ending: Promise<Ending> | undefined) => void;
  endWatch: () => void;
}

const CANCELLED: Ending = { kind: "cancelled" };

export class SharedRun implements AnswerSink {
  /** Ends the run itself, independent of single clients. */
  readonly cancellation = new Cancellation();
  /** Settles when the run is over. Never rejects. */
  readonly result: Promise<RunResult>;
  readonly #readers = new Set<Reader>();
  readonly #beganMs = performance.now();
  #head: AnswerHead | undefined;
  #chunks: Buffer[] = [];
  /** Number of freed chunks, which every reader has got. */
  #numDropped = 0;
  #numBytes = 0;
  #heldBytes = 0;
  readonly #marks: number[] = [];
  #isKept = true;
  #isJoinable = true;
  #end: { readonly error: MillraceError | undefined } | undefined;
  #onDrain: (() => void) | undefined;
  #lingering: NodeJS.Timeout | undefined;
  readonly #ending: Promise<Ending>;

  /**
   * @param start runs the request; rejects if the sink got nothing
   * @param onClosed called once when nobody may join any more
   */
  constructor(
    start: (sink: AnswerSink, cancellation: Cancellation) => Promise<Ending>,
    private readonly options: SharedRunOptions,
    private readonly onClosed: () => void,
  ) {
    // Not in this turn, so that the run's creator can read it first.
    this.#ending = Promise.resolve().then(() => start(this, this.cancellation));
    this.result = this.#ending.then(
      (ending) => this.#conclude(ending),
      () => this.#conclude(CANCELLED),
    );
  }

  get isJoinable(): boolean {
    return this.#isJoinable;
  }

  /**
   * Reads the answer from its beginning. The owner's promise settles with the run, even if its client left before, so
   * that the run's cost is settled with the owner's request; it rejects if the run does.
   *
   * @returns undefined for others than the owner, if the run ended without an answer for them: they have received
   * nothing
   */
  read(sink: AnswerSink, cancellation: Cancellation, isOwner = false): Promise<Ending | undefined> {
    clearTimeout(this.#lingering);
    return new Promise((resolve, reject) => {
      const reader: Reader = {
        sink,
        isOwner,
        next: 0,
        hasBegun: false,
        isBlocked: false,
        settle: (ending) => (ending === undefined ? resolve(undefined) : ending.then(resolve, reject)),
        endWatch: () => {},
      };
      this.#readers.add(reader);
      reader.endWatch = cancellation.onCancel((error) => this.#leave(reader, error));
      if (this.#readers.has(reader)) this.#feed(reader);
    });
  }

  begin(head: AnswerHead): void {
    this.#head = head;
    if (isOfTheMoment(head.status)) {
      this.#isKept = false;
      this.close();
      for (const reader of [...this.#readers]) if (!reader.isOwner) this.#release(reader, undefined);
      this.#look();
    }
    for (const reader of this.#readers) this.#feed(reader);
  }

  write(bytes: Buffer): boolean {
    this.#chunks.push(bytes);
    this.#numBytes += bytes.length;
    this.#heldBytes += bytes.length;
    if (this.#isKept) this.#marks.push(this.#numBytes, Math.round((performance.now() - this.#beganMs) * 1000) / 1000);
    if (this.#numBytes > this.options.maxBytes || this.#chunks.length > MAX_CHUNKS) {
      this.#isKept = false;
      this.close();
    }
    // A set tolerates the loss of members during a loop.
    for (const reader of this.#readers) this.#feed(reader);
    if (!this.#isKept) this.#drop();
    return !this.#isHeldUp();
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
    this.#goOn();
  }

  end(last?: Buffer): void {
    if (last !== undefined && last.length > 0) this.write(last);
    this.#finish(undefined);
  }

  breakOff(error: MillraceError): void {
    this.#isKept = false;
    this.#finish(error);
  }

  #finish(error: MillraceError | undefined): void {
    this.#end = { error };
    if (error !== undefined || this.options.staysOpen !== true) this.close();
    for (const reader of this.#readers) this.#feed(reader);
  }

  #conclude(ending: Ending): RunResult {
    if (this.#end === undefined || this.options.staysOpen !== true) this.close();
    clearTimeout(this.#lingering);
    // A reader without the end gets it when it can take more; the others need not wait.
    for (const reader of [...this.#readers]) {
      if (this.#end === undefined || this.#head === undefined)
        this.#release(reader, reader.isOwner || reader.hasBegun ? this.#ending : undefined);
    }
    const isWhole = this.#isKept && this.#end !== undefined && this.#head !== undefined && ending.kind === "answered";
    const answer = isWhole ? { head: this.#head!, body: Buffer.concat(this.#chunks), marks: this.#marks } : undefined;
    return { ending, answer };
  }

  #feed(reader: Reader): void {
    if (this.#head === undefined) return;
    if (!reader.hasBegun) {
      reader.hasBegun = true;
      reader.sink.begin(this.#head);
    }
    while (!reader.isBlocked && reader.next < this.#numDropped + this.#chunks.length) {
      const chunk = this.#chunks[reader.next++ - this.#numDropped]!;
      if (reader.sink.write(chunk)) continue;
      reader.isBlocked = true;
      reader.sink.onDrain(() => this.#resume(reader));
    }
    if (this.#end === undefined || reader.isBlocked || !this.#readers.has(reader)) return;
    if (this.#end.error === undefined) reader.sink.end();
    else reader.sink.breakOff(this.#end.error);
    this.#release(reader, this.#ending);
  }

  #resume(reader: Reader): void {
    reader.isBlocked = false;
    if (!this.#readers.has(reader)) return;
    this.#feed(reader);
    if (!this.#isKept) this.#drop();
    this.#goOn();
  }

  /** Whether the oldest reader holds the run up; without readers, nothing does. */
  #isHeldUp(): boolean {
    const [first] = this.#readers;
    return first?.isBlocked === true;
  }

  #goOn(): void {
    if (this.#onDrain === undefined || this.#isHeldUp()) return;
    const listener = this.#onDrain;
    this.#onDrain = undefined;
    listener();
  }

  /** Frees bytes that every reader has read, and drops readers that are too far behind. */
  #drop(): void {
    const [first] = this.#readers;
    for (const reader of [...this.#readers]) {
      if (reader === first || this.#bytesBehind(reader) <= this.options.maxBytes) continue;
      const message = `expected a client at most ${this.options.maxBytes} bytes behind the answer that it shares, got a slower one`;
      reader.sink.breakOff(new MillraceError("client_closed", message));
      this.#release(reader, Promise.resolve(CANCELLED));
    }
    let least = this.#numDropped + this.#chunks.length;
    for (const { next } of this.#readers) least = Math.min(least, next);
    const gone = this.#chunks.splice(0, least - this.#numDropped);
    for (const chunk of gone) this.#heldBytes -= chunk.length;
    this.#numDropped = least;
  }

  #bytesBehind({ next }: Reader): number {
    if (next === this.#numDropped) return this.#heldBytes;
    let numBytes = 0;
    for (let i = next - this.#numDropped; i < this.#chunks.length; i++) numBytes += this.#chunks[i]!.length;
    return numBytes;
  }

  /**
   * Removes a reader whose client left or gets an error. An error of the owner's request, such as a deadline, ends the
   * run, since the owner pays for it.
   */
  #leave(reader: Reader, error: MillraceError | undefined): void {
    if (!this.#readers.has(reader)) return;
    if (error !== undefined && reader.hasBegun) reader.sink.breakOff(error);
    const settled = this.result.then(() => CANCELLED);
    this.#release(reader, reader.isOwner ? settled : Promise.resolve(CANCELLED));
    if (error !== undefined && reader.isOwner) this.#stop(error);
    this.#look();
    this.#goOn();
  }

  #release(reader: Reader, ending: Promise<Ending> | undefined): void {
    if (!this.#readers.delete(reader)) return;
    reader.endWatch();
    reader.settle(ending);
  }

  /** Ends a run that nobody reads. */
  #look(): void {
    if (this.#readers.size > 0 || this.#end !== undefined) return;
    if (this.options.lingerMs === 0 || !this.#isJoinable) this.#stop();
    else this.#lingering = setTimeout(() => this.#stop(), this.options.lingerMs);
  }

  #stop(error?: MillraceError): void {
    if (this.#end !== undefined) return;
    this.close();
    this.cancellation.cancel(error);
  }

  /** Lets nobody join any more. */
  close(): void {
    if (!this.#isJoinable) return;
    this.#isJoinable = false;
    this.onClosed();
  }
}
