/**
 * Tells the stages of a request that its answer is no longer wanted. Cheaper than an AbortSignal, and carries the
 * client's error.
 */
import type { MillraceError } from "../core/errors.js";

export class Cancellation {
  #isCancelled = false;
  #error: MillraceError | undefined;
  readonly #listeners = new Set<(error: MillraceError | undefined) => void>();

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** The client's error; undefined: the client left. */
  get error(): MillraceError | undefined {
    return this.#error;
  }

  /** Only the first call counts. @param error ends an answer that has begun; undefined: the client left */
  cancel(error?: MillraceError): void {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    this.#error = error;
    for (const listener of [...this.#listeners]) listener(error);
    this.#listeners.clear();
  }

  /**
   * Calls the listener at the cancellation, or at once if it has come. @returns a function that removes the listener
   */
  onCancel(listener: (error: MillraceError | undefined) => void): () => void {
    if (this.#isCancelled) {
      listener(this.#error);
      return () => {};
    }
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A cancellation of a part of the request: it follows this one, and can be cancelled alone. */
  child(): Cancellation {
    const child = new Cancellation();
    const leave = this.onCancel((error) => child.cancel(error));
    child.onCancel(leave);
    return child;
  }
}
