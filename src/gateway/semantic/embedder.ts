/**
 * Vectors of texts, several to a request: texts that arrive while a request is under way go together in the next one.
 */
import { unitVector } from "./index/vector-index.js";

/** @returns one vector per text, in their order, of any norm */
type Embed = (texts: readonly string[]) => Promise<readonly ArrayLike<number>[]>;

interface Waiting {
  readonly text: string;
  readonly resolve: (vector: Float32Array) => void;
  readonly reject: (thrown: unknown) => void;
}

const MAX_PER_REQUEST = 32;
const MAX_WAITING = 256;
const MAX_DIMENSIONS = 8192;

export class Embedder {
  readonly #waiting: Waiting[] = [];
  #isBusy = false;

  constructor(private readonly embed: Embed) {}

  /** Rejects if the model fails, returns anything but vectors, or has too much to do. */
  vectorOf(text: string): Promise<Float32Array> {
    if (this.#waiting.length >= MAX_WAITING) return Promise.reject(new Error("too many texts wait for their vectors"));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ text, resolve, reject });
      if (!this.#isBusy) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    // Texts of the same turn of the event loop go together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_PER_REQUEST);
      try {
        const vectors = await this.embed(batch.map(({ text }) => text));
        for (const [i, { resolve, reject }] of batch.entries()) {
          const values = vectors[i];
          const vector = values === undefined || values.length > MAX_DIMENSIONS ? undefined : unitVector(values);
          if (vector === undefined) reject(new Error("expected a vector with a direction, got something else"));
          else resolve(vector);
        }
      } catch (thrown) {
        for (const { reject } of batch) reject(thrown);
      }
    }
    this.#isBusy = false;
  }
}
