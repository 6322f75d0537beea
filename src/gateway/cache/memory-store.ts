/** Kept answers in memory, bounded in bytes. */
import { type AnswerStore, fits, type PurgeFilter, type StoreStats } from "./answer-store.js";
import { bytesOf, type StoredAnswer } from "./stored-answer.js";

export class MemoryStore implements AnswerStore {
  /** The least recently used first. */
  readonly #answers = new Map<string, StoredAnswer>();
  #numBytes = 0;

  constructor(
    private readonly maxBytes: number,
    private readonly now: () => number = Date.now,
  ) {}

  get(id: string): StoredAnswer | undefined {
    const answer = this.#answers.get(id);
    if (answer === undefined) return undefined;
    if (answer.expiresMs <= this.now()) {
      this.delete(id);
      return undefined;
    }
    this.#answers.delete(id);
    this.#answers.set(id, answer);
    return answer;
  }

  put(id: string, answer: StoredAnswer): void {
    this.delete(id);
    if (bytesOf(answer) > this.maxBytes) return;
    this.#answers.set(id, answer);
    this.#numBytes += bytesOf(answer);
    for (const oldest of this.#answers.keys()) {
      if (this.#numBytes <= this.maxBytes) break;
      this.delete(oldest);
    }
  }

  /** @returns whether there was one */
  delete(id: string): boolean {
    const answer = this.#answers.get(id);
    if (answer === undefined) return false;
    this.#numBytes -= bytesOf(answer);
    return this.#answers.delete(id);
  }

  purge(filter: PurgeFilter): number {
    let numPurged = 0;
    for (const [id, answer] of this.#answers) if (fits(filter, id, answer) && this.delete(id)) numPurged++;
    return numPurged;
  }

  stats(): StoreStats {
    return { kind: "memory", entries: this.#answers.size, bytes: this.#numBytes, maxBytes: this.maxBytes };
  }

  async close(): Promise<void> {
    this.#answers.clear();
    this.#numBytes = 0;
  }
}
