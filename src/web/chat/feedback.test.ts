/** Feedback on answers: from the headers of an answer to the server's record and the kept conversation. */
import { beforeEach, expect, test, vi } from "vitest";
import type { Feedback } from "./conversation.js";

const store = new Map<string, string>();
const storage = {
  getItem: (key: string) => store.get(key) ?? null,
  setItem: (key: string, value: string) => store.set(key, value),
  removeItem: (key: string) => store.delete(key),
};
const told: { readonly path: string; readonly body: unknown }[] = [];
let headers: Record<string, string> = {};
let refuses: (path: string) => boolean = () => false;
vi.stubGlobal("localStorage", storage);
vi.stubGlobal("sessionStorage", storage);
vi.stubGlobal("addEventListener", () => {});
vi.stubGlobal("fetch", async (path: string, { body }: RequestInit = {}) => {
  if (path === "v1/chat/completions") {
    const delta = { choices: [{ delta: { content: "Paris" }, finish_reason: "stop" }] };
    return new Response(`data: ${JSON.stringify(delta)}\n\ndata: [DONE]\n\n`, { headers });
  }
  told.push({ path, body: body === undefined ? undefined : JSON.parse(body as string) });
  return refuses(path) ? Response.json({ error: { message: "no such request" } }, { status: 404 }) : Response.json({});
});

const state = await import("./chat-state.js");
const { correct, rate, reportWrong } = await import("./feedback.js");

const CACHE_ID = "0123456789abcdef".repeat(2);
const feedback = (): Feedback => state.chat.value.panes[0]!.turns.at(-1)!.feedback!;
const keptText = () => store.get("millrace-chats")!;

beforeEach(() => {
  told.length = 0;
  refuses = () => false;
  headers = { "x-request-id": "r-1" };
  state.startOver();
  state.problem.value = undefined;
});

test("a thumb is told the server and kept, its other side replaces it, and the same again takes it back", async () => {
  await state.send("Where?");
  expect(feedback()).toEqual({ requestId: "r-1" });
  await rate(feedback(), "up");
  expect(feedback()).toEqual({ requestId: "r-1", rating: "up" });
  expect(keptText()).toContain('"rating":"up"');
  await rate(feedback(), "down");
  await correct(feedback(), "Rome");
  expect(feedback()).toEqual({ requestId: "r-1", rating: "down", correction: "Rome" });
  await rate(feedback(), "down");
  expect(feedback()).toEqual({ requestId: "r-1" });
  expect(told).toEqual(
    [{ rating: "up" }, { rating: "down" }, { rating: "down", correction: "Rome" }, { score: 0 }].map((word) => ({
      path: "v1/feedback",
      body: { request_id: "r-1", ...word },
    })),
  );
});

test("a word that the server does not take is taken back, and a later one stays", async () => {
  await state.send("Where?");
  refuses = () => true;
  await rate(feedback(), "up");
  expect(feedback()).toEqual({ requestId: "r-1" });
  expect(state.problem.value).toBe("Your word on the answer was not taken: no such request");
  const early = rate(feedback(), "up");
  refuses = () => told.length === 2;
  await Promise.all([early, rate(feedback(), "down")]);
  expect(feedback()).toEqual({ requestId: "r-1", rating: "down" });
  expect(state.problem.value).toBeUndefined();
});

test.each([
  [{ "x-millrace-cache-kind": "semantic", "x-millrace-cache-id": CACHE_ID }, CACHE_ID],
  [{ "x-millrace-cache": "hit" }, undefined],
  [{ "x-millrace-cache-kind": "semantic", "x-millrace-cache-id": "../admin" }, undefined],
])("an answer with the headers %j has the kept answer %s", async (more, cacheId) => {
  headers = { "x-request-id": "r-1", ...more };
  await state.send("Where?");
  expect(feedback().cacheId).toBe(cacheId);
  if (cacheId === undefined) return;
  await reportWrong(feedback());
  expect(told).toEqual([{ path: `v1/cache/${cacheId}/wrong`, body: undefined }]);
  expect(feedback()).toEqual({ requestId: "r-1", cacheId, isWrong: true });
});

test("an answer that is asked for again has no word on it", async () => {
  await state.send("Where?");
  await rate(feedback(), "up");
  headers = { "x-request-id": "r-2" };
  await state.goOn(0);
  expect(feedback()).toEqual({ requestId: "r-2" });
  headers = {};
  await state.regenerate(0);
  expect(feedback()).toBeUndefined();
});
