/** Providers' requests for earlier answers in a client's responses: thoughts, signatures and calls. */
import { expect, test } from "vitest";
import { asked, RESPONSES } from "../../../../test/helpers/providers/asked.js";

const sealed = (kind: string, value: string) => ({
  type: "reasoning",
  id: "rs_1",
  summary: [{ type: "summary_text", text: "Hm." }],
  encrypted_content: `millrace-${kind}:${value}`,
});

test("a provider's thoughts come back with their signatures, and those of others do not", () => {
  const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
  const output = { type: "function_call_output", call_id: "c", output: [{ type: "input_text", text: "{}" }] };
  const turn = (...items: object[]) => ({ input: [{ role: "user", content: "x" }, ...items, call, output] });
  const blocks = (body: object) =>
    (asked("anthropic", RESPONSES, body).body.messages as { content: object[] }[])[1]!.content;
  const used = { type: "tool_use", id: "c", name: "f", input: {} };
  expect(blocks(turn(sealed("thought", "sig")))).toEqual([
    { type: "thinking", thinking: "Hm.", signature: "sig" },
    used,
  ]);
  expect(blocks(turn(sealed("hidden", "data")))).toEqual([{ type: "redacted_thinking", data: "data" }, used]);
  const foreign = { ...sealed("thought", "x"), encrypted_content: "gAAAA" };
  expect(blocks(turn(sealed("thought", ""), sealed("call", "c2ln"), foreign))).toEqual([used]);
  const contents = asked("google", RESPONSES, turn(sealed("call", "c2ln"))).body.contents as object[];
  expect(contents[1]).toEqual({
    role: "model",
    parts: [{ functionCall: { id: "c", name: "f", args: {} }, thoughtSignature: "c2ln" }],
  });
});

test("a signature is that of the first of several calls", () => {
  const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
  const output = (id: string) => ({ type: "function_call_output", call_id: id, output: "{}" });
  const items = [sealed("call", "c2ln"), call("a"), call("b"), output("a"), output("b")];
  const { contents } = asked("google", RESPONSES, { input: [{ role: "user", content: "x" }, ...items] }).body;
  const made = (id: string) => ({ functionCall: { id, name: "f", args: {} } });
  expect((contents as { parts: object[] }[])[1]!.parts).toEqual([
    { ...made("a"), thoughtSignature: "c2ln" },
    made("b"),
  ]);
});

test.each([
  { role: "user", content: "y" },
  { type: "function_call_output", call_id: "z", output: "" },
])("a signature does not pass the item behind it: %j", (item) => {
  const call = (id: string) => ({ type: "function_call", call_id: id, name: "f", arguments: "{}" });
  const user = { role: "user", content: "x" };
  const input = [user, call("z"), sealed("call", "c2ln"), item, call("a"), user];
  expect(JSON.stringify(asked("google", RESPONSES, { input }).body)).not.toContain("c2ln");
});

test("chats get a call's arguments as they were written", () => {
  const written = ['{"id": 12345678901234567890}', '{"q":', "", "[]"];
  const calls = written.map((each, i) => ({ type: "function_call", call_id: `c${i}`, name: "f", arguments: each }));
  const input = [{ role: "user", content: "x" }, ...calls, { role: "user", content: "y" }];
  const { messages } = asked("openai", RESPONSES, { input }, { responses: "translate" }).body as {
    messages: { tool_calls: { function: { arguments: string } }[] }[];
  };
  const sent = messages[1]!.tool_calls.map((call) => call.function.arguments);
  expect(sent).toEqual([written[0], written[1], "{}", "[]"]);
});

test("a system message behind the first turn comes before all others, where the operator allows it", () => {
  const input = [
    { role: "user", content: "x" },
    { role: "developer", content: "Be kind." },
  ];
  const more = { responses: "translate" as const };
  const refusal = expect.objectContaining({ code: "unsupported_field", param: "input[1].role" });
  expect(() => asked("openai", RESPONSES, { input }, more)).toThrow(refusal);
  const { body, dropped } = asked("openai", RESPONSES, { input }, { ...more, dropsParams: true });
  expect(body.messages).toEqual([
    { role: "system", content: "Be kind." },
    { role: "user", content: "x" },
  ]);
  expect(dropped).toMatchObject({ "x-millrace-dropped-params": "input[1].role" });
});
