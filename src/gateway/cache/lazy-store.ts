/** A store that is opened at the first use. If opening fails, the use fails, and the next use tries again. */
import type { AnswerStore, PurgeFilter, StoreStats } from "./answer-store.js";
import type { StoredAnswer } from "./stored-answer.js";

export class LazyStore implements AnswerStore {
  #opened: Promise<AnswerStore> | undefined;

  constructor(private readonly open: () => Promise<AnswerStore>) {}

  async get(id: string): Promise<StoredAnswer | undefined> {
    return await (await this.#store()).get(id);
  }

  async put(id: string, answer: StoredAnswer): Promise<void> {
    await (await this.#store()).put(id, answer);
  }

  async purge(filter: PurgeFilter): Promise<number> {
    return await (await this.#store()).purge(filter);
  }

  async stats(): Promise<StoreStats> {
    return await (await this.#store()).stats();
  }

  async close(): Promise<void> {
    const store = await this.#opened?.catch(() => undefined);
    await store?.close();
  }

  #store(): Promise<AnswerStore> {
    this.#opened ??= this.open().catch((thrown: unknown) => {
      this.#opened = undefined;
      throw thrown;
    });
    return this.#opened;
  }
}
