/** Guardrails against clients and models that hide a text: split, escaped, or in fields that are rarely checked. */
import { afterEach, expect, test } from "vitest";
import { MAIL, post, rail, startGuarded, user } from "../../../test/helpers/guarded-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { type Behaviour, beginStream, sse, type TestFleet } from "../../../test/helpers/stand-in.js";

const fleets: TestFleet[] = [];
afterEach(async () => {
  for (const fleet of fleets.splice(0)) await fleet.stop();
});

async function start(guardrails: string, behaviour?: Behaviour): Promise<TestFleet> {
  const fleet = await startGuarded(guardrails, behaviour);
  fleets.push(fleet);
  return fleet;
}

const SPLIT = ["write to jo", "hn@example", ".com now"];
test.each([
  ["/v1/chat/completions", { messages: user(SPLIT.map((text) => ({ type: "text", text }))) }],
  ["/v1/responses", { input: user(SPLIT.map((text) => ({ type: "input_text", text }))) }],
  ["/v1/messages", { max_tokens: 1, messages: user("hi"), system: SPLIT.map((text) => ({ type: "text", text })) }],
])("%s: what is split over parts of a message is found, too", async (path, body) => {
  const redacting = await start(rail("redact"));
  expect((await post(redacting, path, body)).status).toBe(200);
  const { text } = redacting.standIns[0]!.received[0]!;
  expect(text).toContain('"write to [email]"');
  expect(text).toContain('" now"');
  expect(text).not.toContain("example");
  expect((await post(await start(rail("refuse")), path, body)).text).toContain("guardrail_refused");
});

test("texts that are no parts of one message are not read as one", async () => {
  const fleet = await start(rail("refuse"));
  const documents = ["jo", "hn@example.com".slice(0, 7), "le.com"].map((text) => ({ text }));
  expect((await post(fleet, "/v1/rerank", { query: "q", documents })).status).toBe(200);
});

test("arguments of a tool call are read as the tool reads them, and stay as they are where nothing is found", async () => {
  const call = (json: string) => ({
    messages: [
      { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: json } }] },
    ],
  });
  const argumentsOf = (fleet: TestFleet): unknown => {
    const { messages } = fleet.standIns[0]!.received.at(-1)!.body as Json;
    return messages[0].tool_calls[0].function.arguments;
  };
  const hidden = '{"a": "john\\u0040example.com", "john\\u0040example.com": 1}';
  const fleet = await start(rail("redact"));
  await post(fleet, "/v1/chat/completions", call(hidden));
  expect(argumentsOf(fleet)).toBe('{"a":"[email]","[email]":1}');
  for (const clean of ['{"a":  "x\\n1e400"}', '{"a": "\\', "no JSON"]) {
    await post(fleet, "/v1/chat/completions", call(clean));
    expect(argumentsOf(fleet)).toBe(clean);
  }
  const refusing = await start(rail("refuse"));
  expect((await post(refusing, "/v1/chat/completions", call(hidden))).json.error.code).toBe("guardrail_refused");
});

const CHAT = "/v1/chat/completions";
const streaming =
  (...parts: readonly string[]): Behaviour =>
  (_, outgoing) => {
    beginStream(outgoing);
    outgoing.end(parts.join(""));
  };
const choice = (delta: object, more = {}) => ({ choices: [{ index: 0, delta, finish_reason: null, ...more }] });

test.each([
  ["a comment", `: ${MAIL}\n\n`, undefined],
  ["a comment before data", `: ${MAIL}\n${sse(choice({ content: "hi" }))}`, undefined],
  ["a comment that ends in a carriage return", `: ${MAIL}\rdata: {}\n\n`, undefined],
  ["the name of an event", `event: ${MAIL}\ndata: {}\n\n`, undefined],
  ["a field that no client knows", `foo: ${MAIL}\ndata: [DONE]\n\n`, undefined],
  ["an annotation", sse(choice({ content: "hi", annotations: [{ url_citation: { title: MAIL, url: MAIL } }] })), 2],
  ["thoughts in parts", sse(choice({ content: "hi", reasoning_details: [{ text: MAIL }] })), 1],
  ["the name of a tool", sse(choice({ tool_calls: [{ index: 0, function: { name: MAIL, arguments: "{}" } }] })), 1],
  ["a citation", sse({ type: "content_block_delta", index: 0, delta: { citation: { cited_text: MAIL } } }), 1],
  [
    "an annotation of a response",
    sse({ type: "response.output_text.annotation.added", annotation: { title: MAIL } }),
    1,
  ],
  ["an error in a stream", sse({ error: { message: MAIL } }), 1],
])("%s of a stream is not passed on as it is", async (_, part, numFound) => {
  const fleet = await start(rail("redact"), streaming(sse(choice({ content: "hi" })), part, sse("[DONE]")));
  const { text } = await post(fleet, CHAT, { messages: user("hi"), stream: true });
  expect(text).not.toContain("john");
  expect(text).toMatch(/"content":"(?:hi|hihi)"/);
  expect(text.split("[email]")).toHaveLength(1 + (numFound ?? 0));
});

test("what is held back of one text does not carry another", async () => {
  const both = choice({ content: "a word jo", reasoning_content: "hn@exam" });
  const events = [both, choice({ reasoning_content: "no" }), choice({ reasoning_content: `: ${MAIL}` })];
  const fleet = await start(rail("redact"), streaming(...events.map(sse), sse("[DONE]")));
  const { text } = await post(fleet, CHAT, { messages: user("hi"), stream: true });
  expect(text.split("hn@exam")).toHaveLength(2);
  expect(text).not.toContain(MAIL);
});

const PIECES = ["write to jo", "hn@example", ".com"];
test.each([
  ["a spoken answer", PIECES.map((transcript) => choice({ audio: { id: "a", transcript, data: "UklG" } }))],
  ["a function's call", PIECES.map((text) => choice({ function_call: { arguments: text } }))],
  ...["response.audio.transcript", "response.output_audio_transcript"].map((type): [string, object[]] => [
    type,
    [...PIECES.map((delta) => ({ type: `${type}.delta`, delta })), { type: `${type}.done`, transcript: "write" }],
  ]),
])("%s whose text comes in pieces is read as one text, and its sound comes once", async (_, events) => {
  const fleet = await start(rail("redact"), streaming(...events.map(sse), sse("[DONE]")));
  const { text } = await post(fleet, CHAT, { messages: user("hi"), stream: true });
  expect(text).toContain('"write to ');
  expect(text.split("[email]")).toHaveLength(2);
  expect(text).not.toMatch(/example|hn@/);
  expect(text.split("UklG").length).toBeLessThanOrEqual(1 + PIECES.length);
});

test.each(['"john@example.com"', '["john@example.com"]'])("an event that is %s is none", async (data) => {
  const fleet = await start(rail("redact"), streaming(sse(choice({ content: "hi" })), `data: ${data}\n\n`));
  const { text } = await post(fleet, CHAT, { messages: user("hi"), stream: true });
  expect([text.includes("guardrail_failed"), text.includes("john")]).toEqual([true, false]);
});

test.each([
  ["text/plain", 200],
  ["application/octet-stream", 200],
  ["application/json", 201],
])("an answer to a chat of the type %s with status %i is searched or refused", async (type, status) => {
  const fleet = await start(rail("redact"), (_, outgoing) => {
    outgoing.writeHead(status, { "Content-Type": type }).end(status === 200 ? MAIL : JSON.stringify({ text: MAIL }));
  });
  const answer = await post(fleet, CHAT, { messages: user("hi") });
  expect(answer.text).not.toContain("john");
  expect(answer.status).toBe(status === 200 ? 503 : 201);
});
