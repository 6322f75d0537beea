/** Guardrails against clients and models that hide a text: split, escaped, or where nobody looks. */
import { afterEach, expect, test } from "vitest";
import { post, rail, startGuarded, user } from "../../../test/helpers/guarded-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import type { Behaviour, TestFleet } from "../../../test/helpers/stand-in.js";

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
