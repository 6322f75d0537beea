/** Kept answers in memory, bounded in bytes. */
import { type AnswerStore, fits, type PurgeFilter, type StoreStats } from "./answer-store.js";
import { bytesOf, type StoredAnswer } from "./stored-answer.js";

interface Owned {
  /** The least recently used first. */
  readonly ids: Set<string>;
  bytes: number;
}

export class MemoryStore implements AnswerStore {
  readonly #answers = new Map<string, StoredAnswer>();
  /** Answers by tenant in a fair store, else all together under "". */
  readonly #owned = new Map<string, Owned>();
  #numBytes = 0;

  /** @param isFair the tenant with the most bytes makes room; else the least recently used answers of any tenant */
  constructor(
    private readonly maxBytes: number,
    private readonly now: () => number = Date.now,
    private readonly isFair = false,
  ) {}

  get(id: string): StoredAnswer | undefined {
    const answer = this.#answers.get(id);
    if (answer === undefined) return undefined;
    if (answer.expiresMs <= this.now()) {
      this.delete(id);
      return undefined;
    }
    const { ids } = this.#ownedBy(answer);
    ids.delete(id);
    ids.add(id);
    return answer;
  }

  put(id: string, answer: StoredAnswer): void {
    this.delete(id);
    const numBytes = bytesOf(answer);
    if (numBytes > this.maxBytes) return;
    // Before the insertion, so that the new answer does not go itself if its tenant has no other.
    while (this.#numBytes + numBytes > this.maxBytes) this.#dropOne();
    this.#answers.set(id, answer);
    this.#ownedBy(answer).ids.add(id);
    this.#count(answer, numBytes);
  }

  #dropOne(): void {
    let largest: Owned | undefined;
    for (const owned of this.#owned.values()) if (largest === undefined || owned.bytes > largest.bytes) largest = owned;
    const [oldest] = largest!.ids;
    this.delete(oldest!);
  }

  /** @returns whether the answer existed */
  delete(id: string): boolean {
    const answer = this.#answers.get(id);
    if (answer === undefined) return false;
    this.#ownedBy(answer).ids.delete(id);
    this.#count(answer, -bytesOf(answer));
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
    this.#owned.clear();
    this.#numBytes = 0;
  }

  #ownerOf({ tenant }: StoredAnswer): string {
    return this.isFair ? tenant : "";
  }

  #ownedBy(answer: StoredAnswer): Owned {
    const owner = this.#ownerOf(answer);
    const owned = this.#owned.get(owner) ?? { ids: new Set(), bytes: 0 };
    this.#owned.set(owner, owned);
    return owned;
  }

  #count(answer: StoredAnswer, numBytes: number): void {
    const owned = this.#ownedBy(answer);
    owned.bytes += numBytes;
    this.#numBytes += numBytes;
    if (owned.ids.size === 0) this.#owned.delete(this.#ownerOf(answer));
  }
}
