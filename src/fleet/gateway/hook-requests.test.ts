/** Guardrails on requests, through the real proxy, on every API. */

import { afterEach, expect, test } from "vitest";
import { MAIL, post, rail, startGuarded, user } from "../../../test/helpers/guarded-fleet.js";
import type { Behaviour } from "../../../test/helpers/stand-in.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(guardrails: string, behaviour?: Behaviour) {
  const fleet = await startGuarded(guardrails, behaviour);
  closing.push(() => fleet.stop());
  return fleet;
}

const REQUESTS: readonly (readonly [string, string, (text: string) => object])[] = [
  ["chat", "/v1/chat/completions", (text) => ({ messages: user(text) })],
  ["chat in parts", "/v1/chat/completions", (text) => ({ messages: user([{ type: "text", text }]) })],
  [
    "a tool's result",
    "/v1/chat/completions",
    (text) => ({ messages: [{ role: "tool", tool_call_id: "c", content: text }] }),
  ],
  ["a name", "/v1/chat/completions", (text) => ({ messages: [{ role: "user", name: text, content: "hi" }] })],
  [
    "a tool's description",
    "/v1/chat/completions",
    (text) => ({ messages: user("hi"), tools: [{ type: "function", function: { name: "f", description: text } }] }),
  ],
  [
    "a tool's schema",
    "/v1/messages",
    (text) => ({
      max_tokens: 1,
      messages: user("hi"),
      tools: [{ name: "f", input_schema: { type: "object", properties: { a: { enum: [text] } } } }],
    }),
  ],
  [
    "arguments of a template",
    "/v1/chat/completions",
    (text) => ({ messages: user("hi"), chat_template_kwargs: { a: text } }),
  ],
  [
    "a key of a schema",
    "/v1/messages",
    (text) => ({
      max_tokens: 1,
      messages: user("hi"),
      tools: [{ name: "f", input_schema: { type: "object", properties: { [text]: {} } } }],
    }),
  ],
  [
    "a schema for the answer",
    "/v1/chat/completions",
    (text) => ({
      messages: user("hi"),
      response_format: { type: "json_schema", json_schema: { name: "a", schema: { description: text } } },
    }),
  ],
  [
    "a format for the answer",
    "/v1/responses",
    (text) => ({ input: "hi", text: { format: { type: "json_schema", description: text } } }),
  ],
  ["strings to stop at", "/v1/chat/completions", (text) => ({ messages: user("hi"), stop: [text] })],
  ["choices", "/v1/chat/completions", (text) => ({ messages: user("hi"), guided_choice: ["a", text] })],
  ["completions", "/v1/completions", (text) => ({ prompt: ["a", text] })],
  ["responses", "/v1/responses", (text) => ({ input: text, instructions: "be kind" })],
  ["responses in items", "/v1/responses", (text) => ({ input: user([{ type: "input_text", text }]) })],
  [
    "a function's output",
    "/v1/responses",
    (text) => ({ input: [{ type: "function_call_output", call_id: "c", output: text }] }),
  ],
  ["messages", "/v1/messages", (text) => ({ max_tokens: 1, system: text, messages: user("hi") })],
  [
    "a tool's input",
    "/v1/messages",
    (text) => ({
      max_tokens: 1,
      messages: [{ role: "assistant", content: [{ type: "tool_use", id: "t", name: "f", input: { name: text } }] }],
    }),
  ],
  [
    "a document",
    "/v1/messages",
    (text) => ({
      max_tokens: 1,
      messages: user([{ type: "document", source: { type: "text", media_type: "text/plain", data: text } }]),
    }),
  ],
  ["embeddings", "/v1/embeddings", (text) => ({ input: [text] })],
  ["embeddings of Cohere's API", "/v2/embed", (text) => ({ texts: [text] })],
  ["embeddings of parts", "/v2/embed", (text) => ({ inputs: [{ content: [{ type: "text", text }] }] })],
  ["rerank", "/v1/rerank", (text) => ({ query: "q", documents: [text] })],
];

test.each(REQUESTS)("%s is redacted, flagged or refused", async (_, path, body) => {
  const sent = `write to ${MAIL} now`;
  const redacting = await start(rail("redact"));
  expect((await post(redacting, path, body(sent))).status).toBe(200);
  const { text } = redacting.standIns[0]!.received[0]!;
  expect([text.includes("write to [email] now"), text.includes(MAIL)]).toEqual([true, false]);

  const flagging = await start(rail("flag"));
  const { headers } = await post(flagging, path, body(sent));
  expect(headers.get("x-millrace-guardrails")).toBe("pii: flag email in the request (1)");
  expect(flagging.standIns[0]!.received[0]!.text).toContain(sent);

  const refusing = await start(rail("refuse"));
  const refused = await post(refusing, path, body(sent));
  expect([refused.status, refused.text.includes("guardrail_refused"), refused.text.includes(MAIL)]).toEqual([
    400,
    true,
    false,
  ]);
  expect(refusing.standIns[0]!.received).toHaveLength(0);
  expect((await post(refusing, path, body("nothing of the kind"))).status).toBe(200);
});

test("what is no text stays as it is", async () => {
  const fleet = await start(rail("redact"));
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,john@example.com" } };
  const body = { messages: user([image]), user: MAIL };
  await post(fleet, "/v1/chat/completions", body);
  expect(fleet.standIns[0]!.received[0]!.body).toMatchObject(body);
});

test.each([[[1, 2]], [[[1], [2]]]])("token ids %j cannot be read, and are refused", async (prompt) => {
  const fleet = await start(rail("redact"));
  const refused = await post(fleet, "/v1/completions", { prompt });
  expect([refused.status, refused.json.error.code]).toEqual([400, "guardrail_refused"]);
});

test("guardrails hold for their models, paths and stages only", async () => {
  for (const more of [", models: [other-*]", ", paths: [/v1/messages]", ", on: [answer]"]) {
    const fleet = await start(rail("refuse", more));
    expect((await post(fleet, "/v1/chat/completions", { messages: user(MAIL) })).status).toBe(200);
  }
});

test("patterns of the operator are found", async () => {
  const fleet = await start(
    '    - {name: staff, action: redact, patterns: [{name: id, regex: "e[0-9]{6}", ignore-case: true, whole-word: true}]}\n',
  );
  await post(fleet, "/v1/completions", { prompt: "E123456 and E1234567" });
  expect(fleet.standIns[0]!.received[0]!.body.prompt).toBe("[id] and E1234567");
});
