import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { suiteChats } from "../../models/corpus/suites.js";
import { seedOf } from "./ask.js";
import { openRemoteModel } from "./remote-model.js";
import { runTask } from "./run-task.js";

interface Reply {
  readonly status?: number;
  readonly body: unknown;
}

let server: Server | undefined;
afterEach(() => new Promise<void>((resolve) => (server === undefined ? resolve() : server.close(() => resolve()))));

interface Seen {
  readonly url: string;
  readonly key: string | undefined;
  readonly body: unknown;
}

/** Replies to requests in turn; the last reply is repeated. */
async function serve(...replies: readonly Reply[]): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const { status = 200, body } = replies[Math.min(seen.length, replies.length - 1)]!;
    seen.push({ url: request.url!, key: request.headers.authorization, body: text && JSON.parse(text) });
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

const MODELS = { body: { object: "list", data: [{ id: "big" }, { id: "small" }] } };
const completion = (content: string | null, finish_reason = "stop"): Reply => ({
  body: {
    choices: [{ message: { role: "assistant", content }, finish_reason }],
    usage: { prompt_tokens: 5, completion_tokens: 7 },
  },
});
const signal = new AbortController().signal;
const open = (url: string, model?: string) =>
  openRemoteModel({ url, model, apiKey: "key", temperature: 0.5, maxTokens: 9, seed: 3 }, signal);
const QUESTION = [{ role: "user", content: "Why?" }] as const;

test("asks the first model in the server's list, under /v1 however the address is written", async () => {
  for (const suffix of ["", "/", "/v1", "/v1/"]) {
    const { url, seen } = await serve(MODELS, completion("Because."));
    const teacher = await open(url + suffix);
    expect(await teacher.ask(QUESTION, signal)).toEqual({
      text: "Because.",
      end: "stop",
      numPromptTokens: 5,
      numOutputTokens: 7,
    });
    const body = {
      model: "big",
      messages: QUESTION,
      temperature: 0.5,
      top_p: 1,
      max_tokens: 9,
      seed: seedOf(3, QUESTION),
    };
    expect(seen).toEqual([
      { url: "/v1/models", key: "Bearer key", body: "" },
      { url: "/v1/chat/completions", key: "Bearer key", body },
    ]);
    await teacher.close();
    await new Promise((resolve) => server!.close(resolve));
  }
});

test("waits for a busy server and tries again", async () => {
  const { url, seen } = await serve({ status: 429, body: {} }, completion("Yes.", "length"));
  const teacher = await open(url, "big");
  expect(await teacher.ask(QUESTION, signal)).toMatchObject({ text: "Yes.", end: "length" });
  expect(seen).toHaveLength(2);
  await teacher.close();
});

test("a refused prompt does not end the collection; any other error does", async () => {
  const { url } = await serve(
    { status: 400, body: { error: { message: "too long" } } },
    completion(null, "tool_calls"),
    { status: 401, body: { error: { message: "no key" } } },
    { body: { choices: [] } },
  );
  const teacher = await open(url, "big");
  for (const problem of ["too long", "finish_reason tool_calls"]) {
    await expect(teacher.ask(QUESTION, signal)).rejects.toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining(problem),
    });
  }
  for (const problem of ["401", "200"]) {
    await expect(teacher.ask(QUESTION, signal)).rejects.toMatchObject({
      code: "endpoint_failed",
      message: expect.stringContaining(problem),
    });
  }
  await teacher.close();
});

test("a missing server is an error at once", async () => {
  const { url } = await serve(MODELS);
  await new Promise((resolve) => server!.close(resolve));
  await expect(open(url)).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringContaining("ECONNREFUSED"),
  });
});

test("tells what a server lacks for task files", async () => {
  const bare = await serve(MODELS, { status: 404, body: { detail: "Not Found" } });
  await expect((await open(bare.url)).texts()).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringContaining("special tokens at /tokenizer_info, got none: expected"),
  });
  await new Promise<void>((resolve) => server!.close(() => resolve()));
  const info: Reply = { body: { bos_token: null, eos_token: { content: "</s>" } } };
  const tokens: Reply = { body: { tokens: [2], max_model_len: 9 } };
  const withoutEcho: Reply = {
    body: { choices: [{ logprobs: { token_logprobs: [-1], top_logprobs: [{ a: -1 }] } }] },
  };
  const { url, seen } = await serve(MODELS, info, tokens, withoutEcho);
  const model = await (await open(url)).texts();
  expect(model).toMatchObject({ prefixId: 2, maxLength: 9 });
  expect(seen[2]).toMatchObject({ url: "/tokenize", body: { prompt: "</s>", add_special_tokens: false } });
  await expect(model.score([5, 6, 7], 1, signal)).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringContaining("log-probabilities of 3 tokens"),
  });
});

test("calls are read where tools were offered, and checked; a model whose calls are not read is refused", async () => {
  const [chat] = suiteChats("tools", 5, 1)!;
  const wanted = chat!.check.kind === "calls" ? chat!.check.calls : [];
  expect(wanted.length).toBeGreaterThan(0);
  const tool_calls = wanted.map(({ name, arguments: own }, index) => ({
    id: `call-${index}`,
    type: "function",
    function: { name, arguments: JSON.stringify(own) },
  }));
  const called = { body: { choices: [{ message: { content: null, tool_calls }, finish_reason: "tool_calls" }] } };
  const { url, seen } = await serve(called, called, completion("It is sunny."));
  const model = await open(url, "big");
  const run = () => runTask(model, { name: "tools", chats: [chat!] }, 1, () => {});
  expect((await run()).items[0]).toMatchObject({
    exact: true,
    answer: "",
    end: "stop",
    calls: [{ name: wanted[0]!.name }],
  });
  expect(seen[0]!.body).toMatchObject({ tools: chat!.tools });
  await expect(model.ask(QUESTION, signal)).rejects.toThrow(/expected an answer in text, got finish_reason tool_calls/);
  expect((await run()).items[0]).toMatchObject({ exact: false, note: expect.stringContaining("no right call of") });
  await model.close();
  const answer = { text: "", end: "stop", numPromptTokens: 1, numOutputTokens: 1 } as const;
  const odd = (function_: unknown) => ({ type: "function", function: function_ });
  const ofObjects = wanted.map(({ name, arguments: own }) => odd({ name, arguments: own }));
  const answers = [ofObjects, [odd({ name: "now", arguments: null })], [odd(null), "?"], "?"].map((calls) => ({
    body: { choices: [{ message: { content: null, tool_calls: calls }, finish_reason: "tool_calls" }] },
  }));
  const lenient = await serve(...answers, {
    body: { choices: [{ message: { content: "Yes.", tool_calls: ["?"] }, finish_reason: "stop" }] },
  });
  const other = await open(lenient.url, "big");
  const ask = () => runTask(other, { name: "tools", chats: [chat!] }, 1, () => {});
  expect((await ask()).items[0]).toMatchObject({ exact: true });
  expect((await ask()).items[0]).toMatchObject({ exact: false, calls: [{ name: "now", arguments: "" }] });
  for (const numCalls of [2, 1]) {
    const [item] = (await ask()).items;
    expect(item).toMatchObject({ exact: false, note: expect.stringContaining("called unreadable") });
    expect(item!.calls).toHaveLength(numCalls);
  }
  expect(await other.ask(QUESTION, signal)).toMatchObject({ text: "Yes." });
  await other.close();
  const unread = runTask({ ask: async () => answer }, { name: "tools", chats: [chat!] }, 1, () => {});
  await expect(unread).rejects.toMatchObject({
    code: "invalid_option",
    message: expect.stringContaining("behind a server"),
  });
});
