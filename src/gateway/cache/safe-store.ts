/** A store whose failures count as misses. A failure is logged, and no request uses the store for a moment after it. */
import type { AnswerStore, PurgeFilter, StoreStats } from "./answer-store.js";
import type { StoredAnswer } from "./stored-answer.js";

/** A failed store is not used for this long, so that requests do not wait for it one by one. */
const REST_MS = 1000;

export class SafeStore implements AnswerStore {
  #restsUntilMs = 0;

  /** @param onFailure called at each failure that begins a rest */
  constructor(
    private readonly store: AnswerStore,
    private readonly onFailure: (thrown: unknown) => void,
    private readonly now: () => number = Date.now,
  ) {}

  get(id: string): StoredAnswer | undefined | Promise<StoredAnswer | undefined> {
    if (this.#isResting()) return undefined;
    try {
      const found = this.store.get(id);
      return found instanceof Promise ? found.catch((thrown: unknown) => this.#rest(thrown)) : found;
    } catch (thrown) {
      return this.#rest(thrown);
    }
  }

  async put(id: string, answer: StoredAnswer): Promise<void> {
    if (this.#isResting()) return;
    try {
      await this.store.put(id, answer);
    } catch (thrown) {
      this.#rest(thrown);
    }
  }

  /** Fails with the store: the caller of a purge has to know. */
  purge(filter: PurgeFilter): number | Promise<number> {
    return this.store.purge(filter);
  }

  stats(): StoreStats | Promise<StoreStats> {
    return this.store.stats();
  }

  async close(): Promise<void> {
    await this.store.close();
  }

  #isResting(): boolean {
    return this.now() < this.#restsUntilMs;
  }

  #rest(thrown: unknown): undefined {
    this.#restsUntilMs = this.now() + REST_MS;
    this.onFailure(thrown);
    return undefined;
  }
}
