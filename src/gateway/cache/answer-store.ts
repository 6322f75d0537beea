/**
 * The interface of stores for kept answers. A store may lose an answer at any time, and may fail: both are misses (see
 * SafeStore).
 */
import type { StoredAnswer } from "./stored-answer.js";

/** Chooses the answers to purge: those that match every given field. */
export interface PurgeFilter {
  readonly id?: string | undefined;
  readonly model?: string | undefined;
  readonly tenant?: string | undefined;
  readonly tag?: string | undefined;
  /** The beginning of a tag. */
  readonly tagPrefix?: string | undefined;
}

export interface StoreStats {
  readonly kind: "memory" | "embedded" | "redis";
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

export interface AnswerStore {
  /** Synchronous if that takes microseconds. Never returns an expired answer. */
  get(id: string): StoredAnswer | undefined | Promise<StoredAnswer | undefined>;
  /** Replaces the answer of that id. Beyond the bound, the least recently used answers go. */
  put(id: string, answer: StoredAnswer): void | Promise<void>;
  /** @returns the number of deleted answers */
  purge(filter: PurgeFilter): number | Promise<number>;
  stats(): StoreStats | Promise<StoreStats>;
  close(): Promise<void>;
}

export function fits(
  filter: PurgeFilter,
  id: string,
  { model, tenant, tags }: Pick<StoredAnswer, "model" | "tenant" | "tags">,
) {
  const { tagPrefix } = filter;
  return (
    (filter.id === undefined || filter.id === id) &&
    (filter.model === undefined || filter.model === model) &&
    (filter.tenant === undefined || filter.tenant === tenant) &&
    (filter.tag === undefined || tags.includes(filter.tag)) &&
    (tagPrefix === undefined || tags.some((tag) => tag.startsWith(tagPrefix)))
  );
}
