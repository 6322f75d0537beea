/** Where the page keeps conversations, tested against a server of /v1/chats within the test. */
import { beforeEach, expect, test, vi } from "vitest";
import { type Conversation, DEFAULT_SETTINGS } from "./conversation.js";

interface Kept {
  readonly revision: number;
  readonly conversation: object;
}

const server = new Map<string, Kept>();
/** Awaited before the server answers a call; returns the status of a refusal. */
let hold: (method: string, path: string) => Promise<number | undefined> | undefined = () => undefined;

const store = new Map<string, string>();
/** Capacity of the browser's store, in characters. */
let room = Number.POSITIVE_INFINITY;
const storage = {
  getItem: (key: string) => store.get(key) ?? null,
  setItem: (key: string, value: string) => {
    if (value.length > room) throw new Error("QuotaExceededError");
    store.set(key, value);
  },
  removeItem: (key: string) => store.delete(key),
};
vi.stubGlobal("localStorage", storage);
vi.stubGlobal("sessionStorage", storage);
vi.stubGlobal("addEventListener", () => {});
vi.stubGlobal("fetch", async (path: string, init: RequestInit = {}) => {
  const method = init.method ?? "GET";
  const refused = await hold(method, path);
  if (refused !== undefined) return Response.json({ error: { message: "refused" } }, { status: refused });
  if (path === "session") return Response.json(session.peek() ?? { signed_in: false });
  const rowOf = (id: string) => ({ id, title: "x", updated_ms: 1, revision: server.get(id)!.revision });
  if (path === "v1/chats") return Response.json({ data: [...server.keys()].map(rowOf) });
  const id = path.slice("v1/chats/".length);
  if (method === "GET") return Response.json({ ...rowOf(id), conversation: server.get(id)!.conversation });
  const { revision, conversation } = JSON.parse(init.body as string) as Kept;
  if (revision !== (server.get(id)?.revision ?? 0)) {
    return Response.json({ error: { message: "changed", code: "conversation_changed" } }, { status: 409 });
  }
  server.set(id, { revision: revision + 1, conversation });
  return Response.json({ ...rowOf(id), removed: [] });
});

const { session, takeSession } = await import("../api/session.js");
const shelf = await import("./chat-shelf.js");
const { isInBrowser, numDropped } = await import("./browser-chats.js");

const chatOf = (id: string, content: string): Conversation => ({
  id,
  title: content,
  updatedMs: 1,
  settings: DEFAULT_SETTINGS,
  panes: [{ model: "m", turns: [{ role: "user", content }] }],
});
const textOf = (id: string) => JSON.stringify(server.get(id)?.conversation);
const signInAs = (client: string | undefined) =>
  takeSession({ signed_in: client !== undefined, client_id: client ?? null, keeps_chats: client !== undefined });

beforeEach(() => {
  hold = () => undefined;
  room = Number.POSITIVE_INFINITY;
  server.clear();
  store.clear();
  shelf.forgetServer();
  signInAs("a");
});

test("an import under an open conversation is not overwritten by the next save of the page", async () => {
  await shelf.keep(chatOf("one", "old"));
  await shelf.bringIn([chatOf("one", "imported")]);
  const kept = await shelf.keep(chatOf("one", "old, gone on"));
  expect(kept.id).not.toBe("one");
  expect([textOf("one"), textOf(kept.id)]).toEqual([
    expect.stringContaining("imported"),
    expect.stringContaining("gone on"),
  ]);
});

test("in the browser, what another tab has written meanwhile stays, and the page's own goes on beside it", async () => {
  signInAs(undefined);
  await shelf.keep(chatOf("shared", "base"));
  const theirs = [
    { ...chatOf("shared", "base, theirs"), updatedMs: 2 },
    { ...chatOf("new", "new in the other tab"), updatedMs: 2 },
  ];
  store.set("millrace-chats", JSON.stringify(theirs));
  const first = await shelf.keep({ ...chatOf("shared", "base, ours"), updatedMs: 3 });
  // The page may save this before it learns of the copy.
  const second = await shelf.keep({ ...chatOf("shared", "base, ours, more"), updatedMs: 4 });
  expect(first.problem).toContain("goes on beside it");
  expect(second).toEqual({ id: first.id });
  const kept = (JSON.parse(store.get("millrace-chats")!) as Conversation[]).map(({ title }) => title);
  expect(kept).toEqual(["base, ours, more", "base, theirs", "new in the other tab"]);
  expect(await shelf.refresh("shared")).toBe(true);
  await shelf.load("shared");
  expect(await shelf.refresh("shared")).toBe(false);
  expect(await shelf.keep({ ...chatOf("shared", "base, theirs, ours"), updatedMs: 5 })).toEqual({ id: "shared" });
});

test("a conversation that is too large for the browser is said to be on the page only, and the others stay", async () => {
  signInAs(undefined);
  await shelf.keep(chatOf("other", "Hello"));
  await shelf.keep({ ...chatOf("grows", "Hello"), updatedMs: 2 });
  room = 2000;
  const huge = { ...chatOf("grows", "x".repeat(2000)), updatedMs: 3 };
  expect(await shelf.keep(huge)).toEqual({ id: "grows", problem: expect.stringContaining("on this page only") });
  expect(store.get("millrace-chats")).toContain("other");
  // The browser's state is the page's own.
  expect(await shelf.refresh("grows")).toBe(false);
  expect(await shelf.keep({ ...chatOf("grows", "Hello again"), updatedMs: 4 })).toEqual({ id: "grows" });
  expect(await shelf.bringIn([{ ...huge, id: "imported" }])).toContain("1 of them are not imported");
  expect((await shelf.load("grows"))!.title).toBe("Hello again");
  signInAs("a");
  hold = async () => 500;
  const refused = await shelf.keep({ ...huge, id: "new" });
  expect(refused.problem).toMatch(/The server did not keep .* on this page only\. \(refused\)/);
});

test("conversations that go for want of room are counted until the visitor knows", async () => {
  signInAs(undefined);
  for (let i = 0; i < 4; i++) await shelf.keep({ ...chatOf(`${i}`, "x".repeat(500)), updatedMs: i });
  expect(numDropped.value).toBe(0);
  room = store.get("millrace-chats")!.length;
  for (let i = 4; i < 6; i++) await shelf.keep({ ...chatOf(`${i}`, "x".repeat(500)), updatedMs: i });
  expect([numDropped.value, isInBrowser("1"), isInBrowser("2")]).toEqual([2, false, true]);
  await shelf.discard("2");
  expect(numDropped.value).toBe(2);
});

test("what the server did not take the last time moves to its place there, not beside it", async () => {
  await shelf.keep(chatOf("one", "first"));
  hold = async () => 500;
  await shelf.keep(chatOf("one", "second"));
  expect(isInBrowser("one")).toBe(true);
  hold = () => undefined;
  expect(await shelf.moveToServer()).toBeUndefined();
  expect([...server.keys()]).toEqual(["one"]);
  expect(textOf("one")).toContain("second");
  expect(isInBrowser("one")).toBe(false);
});

test.each(["one", "an id of another app"])("a page goes on with the copy that a move has made of %j", async (id) => {
  signInAs(undefined);
  await shelf.keep(chatOf(id, "ours"));
  signInAs("a");
  server.set("one", { revision: 7, conversation: chatOf("one", "theirs") });
  expect(await shelf.moveToServer()).toBeUndefined();
  const kept = await shelf.keep(chatOf(id, "ours, gone on"));
  expect([...server.keys()]).toEqual(["one", kept.id]);
  expect([textOf("one"), textOf(kept.id)]).toEqual([
    expect.stringContaining("theirs"),
    expect.stringContaining("gone on"),
  ]);
});

test("what the server refuses after a sign-out stays in no browser", async () => {
  hold = async (method) => {
    if (method !== "PUT") return undefined;
    signInAs(undefined);
    shelf.forgetServer();
    return 401;
  };
  await shelf.keep(chatOf("two", "secret"));
  expect(isInBrowser("two")).toBe(false);
});

test("a list that cannot be read is a problem", async () => {
  hold = async () => 500;
  await expect(shelf.refresh("x")).rejects.toThrow("refused");
});

test("a conversation that moves during an export is in the file", async () => {
  await shelf.keep(chatOf("first", "a"));
  signInAs(undefined);
  await shelf.keep({ ...chatOf("second", "b"), updatedMs: 0 });
  signInAs("a");
  hold = async (method) => {
    if (method !== "GET") return undefined;
    hold = () => undefined;
    await shelf.moveToServer();
    return undefined;
  };
  const all = await shelf.allChats();
  expect(all.map((one) => one?.id)).toEqual(["first", "second"]);
});

test("an answer goes on where its conversation becomes a copy meanwhile", async () => {
  const state = await import("./chat-state.js");
  // The first answer's save conflicts while the second answer comes.
  let numAsked = 0;
  state.setSideBySide(true);
  const fresh = state.chat.value.id;
  server.set(fresh, { revision: 7, conversation: chatOf(fresh, "another page's") });
  hold = async (_, path) => {
    if (!path.includes("completions")) return undefined;
    if (++numAsked === 2) await vi.waitFor(() => expect(state.chat.value.id).not.toBe(fresh), { timeout: 20_000 });
    return 500;
  };
  await state.send("Hello");
  const panes = state.chat.value.panes.map(({ turns }) => JSON.stringify(turns.at(-1)));
  expect(state.chat.value.id).not.toBe(fresh);
  expect(panes[1]).toBe(panes[0]);
});

test("a chat is renamed where it is kept, and what the page keeps after that does not conflict with it", async () => {
  await shelf.keep(chatOf("one", "Hello"));
  expect(await shelf.rename("one", "Mine")).toBeUndefined();
  expect(server.get("one")!.conversation).toMatchObject({ title: "Mine", isNamed: true, updatedMs: 2 });
  expect(await shelf.keep({ ...chatOf("one", "More"), title: "Mine", isNamed: true })).toEqual({ id: "one" });
  expect(server.get("one")!.conversation).toMatchObject({ title: "Mine", isNamed: true });
  expect(await shelf.rename("gone", "Mine")).toMatch(/./);
  // Another page has changed it: this page's version becomes a copy, as before.
  server.set("one", { revision: 9, conversation: server.get("one")!.conversation });
  expect(await shelf.rename("one", "Again")).toBeUndefined();
  expect((await shelf.keep(chatOf("one", "Late"))).id).not.toBe("one");
});

test("a search reads the texts of the server's once, those that changed again, and nothing of another client's", async () => {
  for (const id of ["one", "two"]) await shelf.keep(chatOf(id, `Hello ${id}`));
  const read: string[] = [];
  hold = async (method, path) => void (method === "GET" && read.push(path));
  await Promise.all([shelf.readServerTexts(), shelf.readServerTexts()]);
  await shelf.readServerTexts();
  expect(read.sort()).toEqual(["v1/chats/one", "v1/chats/two"]);
  expect([...shelf.knownChats.value.keys()].sort()).toEqual(["one", "two"]);
  await shelf.keep(chatOf("two", "Bye"));
  await shelf.readServerTexts();
  expect(read.length).toBe(3);
  expect(shelf.knownChats.value.get("two")!.title).toBe("Bye");
  shelf.forgetServer();
  expect(shelf.knownChats.value.size).toBe(0);
});

test("a search goes on where a text cannot be read, drops one that was deleted, and ends with its words", async () => {
  const search = await import("./search.js");
  for (const id of ["first", "broken", "gone", "last"]) await shelf.keep(chatOf(id, `Hello ${id}`));
  const read: string[] = [];
  const statuses: Readonly<Record<string, number>> = { broken: 500, gone: 404 };
  hold = async (_, path) => {
    const id = path.split("/").at(-1)!;
    read.push(id);
    return statuses[id];
  };
  search.wanted.value = "hello";
  await vi.waitFor(() => expect(search.searchError.value).toContain("refused"));
  expect([...shelf.knownChats.value.keys()].sort()).toEqual(["first", "last"]);
  expect(read.sort()).toEqual(["broken", "first", "gone", "last"]);
  expect(shelf.entries.value.map(({ id }) => id).sort()).toEqual(["broken", "first", "last"]);
  search.wanted.value = "";
  expect(search.searchError.value).toBeUndefined();
  // An answer to a search from before the field was emptied has no effect.
  search.wanted.value = "hello again";
  search.wanted.value = "";
  await shelf.readServerTexts().catch(() => {});
  await new Promise((resolve) => setTimeout(resolve));
  expect(search.searchError.value).toBeUndefined();
});

test("a search by another client waits for nothing of the one before", async () => {
  await shelf.keep(chatOf("one", "Hello"));
  hold = (method) => (method === "GET" ? new Promise(() => {}) : undefined);
  void shelf.readServerTexts();
  shelf.forgetServer();
  signInAs("b");
  hold = () => undefined;
  await shelf.keep(chatOf("two", "Bye"));
  await shelf.readServerTexts();
  expect(shelf.knownChats.value.has("two")).toBe(true);
});
