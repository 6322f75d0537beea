/** Kept conversations over time, and after writes that fail. */
import { expect, test } from "vitest";
import { openDatabase } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import type { KeptConversation } from "./conversation-form.js";
import { ConversationStore } from "./conversation-store.js";

const SETTINGS = { system: "", temperature: "", topP: "", seed: "", maxTokens: "", schema: "" };
const chat: KeptConversation = {
  title: "x",
  updatedMs: 0,
  settings: { ...SETTINGS, format: "text", showsTokens: false },
  panes: [{ model: "m", turns: [] }],
};
const BOUNDS = { perClient: 1000, bytesPerClient: 1e9, bytesPerTenant: 1e9, maxBytes: 1e9, keepMs: 1000 };
const A = { holder: "key:a", tenant: "org:one" };
const B = { holder: "key:b", tenant: "org:one" };
const OTHER = { holder: "key:c", tenant: "org:two" };

test("what nobody has changed for long goes, some at a time, and a change keeps it", async () => {
  let now = 0;
  const database = openDatabase(undefined);
  const store = new ConversationStore(database, groupCommitOf(database), BOUNDS, () => now);
  const writes = Array.from({ length: 150 }, (_, i) => store.write(A, `c${i}`, 0, chat));
  const [{ row }] = (await Promise.all(writes)) as [Awaited<(typeof writes)[0]>];
  now = 900;
  await store.write(A, "c0", row.revision, chat);
  now = 1100;
  expect([await store.sweep(), await store.sweep()]).toEqual([true, false]);
  expect(store.list("key:a").map(({ id }) => id)).toEqual(["c0"]);
  expect(store.numBytes).toBe(store.list("key:a")[0]!.bytes);
  database.close();
});

test("a write that fails leaves rows and their sum as they were, beside others of the same transaction", async () => {
  const database = openDatabase(undefined);
  const store = new ConversationStore(database, groupCommitOf(database), { ...BOUNDS, bytesPerClient: 3000 }, () => 9);
  const long = (updatedMs: number) => ({ ...chat, updatedMs, title: "x".repeat(400) });
  await store.write(A, "old", 0, long(1));
  await store.write(A, "new", 0, long(7));
  const large = { ...chat, updatedMs: 5, title: "x".repeat(2900) };
  const [failed, written] = await Promise.allSettled([
    store.write(A, "large", 0, large),
    store.write(B, "other", 0, chat),
  ]);
  expect(failed).toMatchObject({ status: "rejected", reason: { code: "storage_quota" } });
  expect(written.status).toBe("fulfilled");
  // The failed write's deletions are undone.
  expect(store.list("key:a").map(({ id }) => id)).toEqual(["new", "old"]);
  const all = [...store.list("key:a"), ...store.list("key:b")];
  expect(store.numBytes).toBe(all.reduce((sum, { bytes }) => sum + bytes, 0));
  database.close();
});

test("after the bounds were lowered, what is there may be shortened and may not grow", async () => {
  const database = openDatabase(undefined);
  const commits = groupCommitOf(database);
  const titled = (length: number) => ({ ...chat, title: "x".repeat(length) });
  const { row } = await new ConversationStore(database, commits, BOUNDS).write(A, "a", 0, titled(400));
  for (const bound of ["bytesPerClient", "bytesPerTenant", "maxBytes"]) {
    const store = new ConversationStore(database, commits, { ...BOUNDS, [bound]: 1 });
    const { revision } = store.list("key:a")[0] ?? row;
    const { bytes } = store.list("key:a")[0] ?? row;
    const { row: shorter } = await store.write(A, "a", revision, titled(bytes - row.bytes + 300));
    const grown = store.write(A, "a", shorter.revision, titled(bytes - row.bytes + 400));
    await expect(grown).rejects.toMatchObject({ code: "storage_quota" });
  }
  database.close();
});

test("a tenant that has filled its share is refused, and others go on; what goes gives its room back", async () => {
  const database = openDatabase(undefined);
  const commits = groupCommitOf(database);
  const store = new ConversationStore(database, commits, { ...BOUNDS, bytesPerTenant: 3000 });
  const large = { ...chat, title: "x".repeat(900) };
  const { row } = await store.write(A, "a", 0, large);
  const refused = store.write(B, "b", 0, large);
  await expect(refused).rejects.toMatchObject({
    code: "storage_quota",
    message: expect.stringContaining("of a tenant"),
  });
  await store.write(OTHER, "c", 0, large);
  // Shorter conversations are accepted.
  await store.write(A, "a", row.revision, chat);
  const { row: other } = await store.write(B, "b", 0, large);
  await store.remove("key:b", "b", other.revision);
  await store.write(B, "b", 0, large);
  store.forget("key:b");
  await store.write(A, "more", 0, large);
  // Sums are computed again at a start, also from an earlier version's rows without a tenant.
  database.exec("DROP INDEX conversations_of_tenant; ALTER TABLE conversations DROP COLUMN tenant");
  const later = new ConversationStore(database, commits, { ...BOUNDS, bytesPerTenant: 3000 });
  expect(later.numBytes).toBe(store.numBytes);
  const { row: more } = later.read("key:a", "more");
  await later.write(A, "more", more.revision, chat);
  await later.write(B, "b", 0, large);
  await expect(later.write(B, "again", 0, large)).rejects.toMatchObject({ code: "storage_quota" });
  database.close();
});
