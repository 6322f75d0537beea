import { expect, test } from "vitest";
import type { AnswerStore } from "./answer-store.js";
import { LazyStore } from "./lazy-store.js";
import { MemoryStore } from "./memory-store.js";
import { SafeStore } from "./safe-store.js";

const stats = async (store: AnswerStore) => (await store.stats()).kind;

test("a store is opened at its first use, once", async () => {
  let numOpened = 0;
  const store = new LazyStore(async () => {
    numOpened++;
    return new MemoryStore(1000);
  });
  await store.close();
  expect(numOpened).toBe(0);
  expect([await Promise.all([stats(store), stats(store)]), numOpened]).toEqual([["memory", "memory"], 1]);
});

test("a store that could not be opened is opened again, and closes without a word", async () => {
  let isDown = true;
  const open = async () => {
    if (isDown) throw new Error("expected a disk, got none");
    return new MemoryStore(1000);
  };
  const store = new LazyStore(open);
  await expect(stats(store)).rejects.toThrow("expected a disk");
  await store.close();
  isDown = false;
  expect(await stats(store)).toBe("memory");
});

test("behind a safe store, one that cannot be opened has no answers", async () => {
  const told: unknown[] = [];
  const open = () => Promise.reject(new Error("expected a disk, got none"));
  const store = new SafeStore(new LazyStore(open), (thrown) => told.push(thrown));
  expect([await store.get("a"), told.length]).toEqual([undefined, 1]);
});
