/**
 * The lines of a batch that are still to run, by model: first failed lines whose wait is over, then the rest in order.
 */
import type { LineIndex } from "./line-index.js";

interface Retry {
  readonly index: number;
  readonly atMs: number;
}

export class LineQueue {
  readonly #isDone: Uint8Array;
  readonly #retries = new Map<number, Retry[]>();
  readonly #cursors = new Map<number, number>();
  #numLeft: number;

  constructor(private readonly lines: LineIndex) {
    this.#isDone = new Uint8Array(lines.length);
    this.#numLeft = lines.length;
  }

  /** Lines without a result, those under way among them. */
  get numLeft(): number {
    return this.#numLeft;
  }

  isDone(index: number): boolean {
    return this.#isDone[index] === 1;
  }

  /** @returns false if the line was done before, or does not exist */
  markDone(index: number): boolean {
    if (index >= this.#isDone.length || this.#isDone[index] === 1) return false;
    this.#isDone[index] = 1;
    this.#numLeft--;
    return true;
  }

  /** Takes the next line of a model. The line comes again only after `again`. */
  next(model: number, nowMs: number): number | undefined {
    const retries = this.#retries.get(model) ?? [];
    const due = retries.findIndex(({ atMs }) => atMs <= nowMs);
    if (due >= 0) return retries.splice(due, 1)[0]!.index;
    let at = this.#cursors.get(model) ?? 0;
    while (at < this.lines.length && (this.isDone(at) || this.lines.modelAt(at) !== model)) at++;
    this.#cursors.set(model, at + 1);
    return at < this.lines.length ? at : undefined;
  }

  again(index: number, atMs: number): void {
    const model = this.lines.modelAt(index);
    this.#retries.set(model, [...(this.#retries.get(model) ?? []), { index, atMs }]);
  }

  /** The lines without a result, in order. */
  *left(): Generator<number> {
    for (let index = 0; index < this.lines.length; index++) if (!this.isDone(index)) yield index;
  }
}
