import fc from "fast-check";
import { expect, test } from "vitest";
import { chat, chunks } from "../../../test/helpers/cached-fleet.js";
import { judgeSample } from "./checks/checks.js";
import { readSample, SAMPLED_PATHS } from "./read-sample.js";

const CHAT = "/v1/chat/completions";
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const read = (body: object, answer: object = chat("ok"), path = CHAT) =>
  readSample(path, json(body), json(answer), false);
const user = (content: unknown) => [{ role: "user", content }];

test("the prompt's texts are read in order, and what is no text is told", () => {
  const messages = [
    { role: "developer", content: "Be brief." },
    ...user([
      { type: "text", text: "a" },
      { type: "text", text: "b" },
    ]),
  ];
  expect(read({ messages })).toMatchObject({
    messages: [
      { role: "system", text: "Be brief." },
      { role: "user", text: "a\nb" },
    ],
    isPlain: true,
  });
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  expect(read({ messages: user([image, { type: "text", text: "What?" }]) })).toMatchObject({
    messages: [{ role: "user", text: "What?" }],
    isPlain: false,
  });
  expect(read({ messages: user("a"), tools: [{ type: "function", function: { name: "f" } }] })).toMatchObject({
    isPlain: false,
  });
  const withResult = [...user("a"), { role: "tool", tool_call_id: "1", content: "42" }];
  expect(read({ messages: withResult })).toMatchObject({
    messages: [{ text: "a" }, { role: "tool", text: "42" }],
    isPlain: false,
  });
  const completion = { choices: [{ index: 0, text: "b", finish_reason: "stop" }] };
  const ids = read({ prompt: [1, 2, 3] }, completion, "/v1/completions");
  expect(ids).toMatchObject({ messages: [], isPlain: false, answer: { text: "b", end: "stop" } });
});

test("the wanted form is the same in every dialect", () => {
  const schema = { type: "object" };
  const wanted = { type: "json_schema", json_schema: { schema } };
  const flat = { type: "json_schema", name: "n", schema };
  const formOf = (body: object) => read({ messages: user("a"), ...body })?.format;
  expect(formOf({ response_format: wanted })).toEqual(wanted);
  for (const body of [{ text: { format: flat } }, { output_format: flat }, { output_config: { format: flat } }])
    expect(formOf(body)).toEqual(wanted);
  for (const body of [
    {},
    { response_format: null },
    { response_format: { type: "text" } },
    { text: { format: { type: "text" } } },
  ])
    expect(formOf(body)).toBeUndefined();
});

test("calls, refusals and log-probabilities are read", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: '{"a"' } };
  const asked = {
    choices: [
      { index: 0, message: { role: "assistant", content: null, tool_calls: [call] }, finish_reason: "tool_calls" },
    ],
  };
  expect(read({ messages: user("a") }, asked)?.answer).toMatchObject({ end: "calls", calls: ['{"a"'], text: "" });
  const refused = { type: "message", role: "assistant", model: "m", content: [], stop_reason: "refusal", usage: {} };
  expect(read({ messages: user("a") }, refused, "/v1/messages")?.answer.end).toBe("refusal");
  const logprobs = {
    content: [
      { token: "a", logprob: -0.5, top_logprobs: [] },
      { token: "b", logprob: -3, top_logprobs: [] },
    ],
  };
  const sure = {
    choices: [{ index: 0, message: { role: "assistant", content: "ab" }, finish_reason: "stop", logprobs }],
  };
  expect(read({ messages: user("a") }, sure)?.answer.logprobs).toEqual([-0.5, -3]);
});

test("thoughts of a response are not its answer", () => {
  const thought = { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "I cannot." }] };
  const said = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Yes." }] };
  const response = { object: "response", status: "completed", output: [thought, said] };
  expect(read({ input: "a" }, response, "/v1/responses")?.answer.text).toBe("Yes.");
});

test("several choices, errors and broken streams are no samples", () => {
  expect(read({ messages: user("a"), n: 2 })).toBeUndefined();
  expect(read({ messages: user("a") }, { error: { message: "no" } })).toBeUndefined();
  const cut = chunks("hello").slice(0, 3).join("");
  expect(readSample(CHAT, json({ messages: user("a") }), Buffer.from(cut), true)).toBeUndefined();
});

test("hostile requests and answers end in a sample or in none", () => {
  const bodies = [json({ messages: user("a") }), json({ prompt: "a" }), json({ input: user("a"), instructions: "b" })];
  const answers = [
    json(chat("ok")),
    Buffer.from(chunks("ok").join("")),
    json({ object: "response", status: "completed", output: [{ content: [{ text: "a" }] }] }),
  ];
  const damage = fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 4 });
  const damaged = (bytes: Buffer, edits: readonly (readonly [number, number])[]): Buffer => {
    const copy = Buffer.from(bytes);
    for (const [at, byte] of edits) copy[at % copy.length] = byte;
    return copy;
  };
  fc.assert(
    fc.property(
      fc.constantFrom(...SAMPLED_PATHS),
      fc.tuple(fc.constantFrom(...bodies), damage),
      fc.tuple(fc.constantFrom(...answers), damage),
      fc.boolean(),
      (path, [body, ofBody], [answer, ofAnswer], isEventStream) => {
        const sample = readSample(path, damaged(body, ofBody), damaged(answer, ofAnswer), isEventStream);
        if (sample !== undefined) expect(judgeSample(sample).length).toBeDefined();
      },
    ),
    { numRuns: 2000 },
  );
});
