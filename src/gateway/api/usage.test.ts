import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UsageReader } from "./usage.js";

const usage = {
  prompt_tokens: 12,
  total_tokens: 19,
  completion_tokens: 7,
  prompt_tokens_details: { cached_tokens: 3 },
};
const event = (data: object, name?: string) =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
/** An answer with text in the form of a usage report. */
const text = `${"x".repeat(9000)}"usage":{"prompt_tokens":1,"completion_tokens":1}`;
const message = { id: "m", usage: { input_tokens: 12, output_tokens: 1 } };

const ANSWERS: readonly (readonly [string, string])[] = [
  ["chat", JSON.stringify({ choices: [{ message: { content: text } }], usage })],
  ["with more behind it", JSON.stringify({ usage, timings: { prompt_ms: 3 }, prompt_logprobs: null }, null, 1)],
  [
    "a stream that was asked",
    `${event({ choices: [{ delta: { content: text } }], usage: null })}${event({ choices: [], usage })}data: [DONE]\n\n`,
  ],
  [
    "Anthropic's stream",
    event({ type: "message_start", message }, "message_start") +
      event({ type: "content_block_delta", delta: { text } }, "content_block_delta") +
      event({ type: "message_delta", delta: {}, usage: { output_tokens: 7 } }, "message_delta"),
  ],
  [
    "the stream of responses",
    event({ type: "response.completed", response: { output: [text], usage: { input_tokens: 12, output_tokens: 7 } } }),
  ],
];

describe.each(ANSWERS)("%s", (_, answer) => {
  test("gives its usage, however it is cut into chunks", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1, maxLength: 20 }), (sizes) => {
        const reader = new UsageReader();
        const bytes = Buffer.from(answer);
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = sizes[i % sizes.length]!;
          reader.push(bytes.subarray(at, at + size));
          at += size;
        }
        expect(reader.read()).toEqual({ inputTokens: 12, outputTokens: 7 });
      }),
    );
  });
});

test.each([
  "",
  text.slice(-30),
  JSON.stringify({ content: text }),
  `${event({ choices: [], usage: null })}data: [DONE]\n\n`,
  '{"usage":{"prompt_tokens":}}',
])("%j gives no usage", (answer) => {
  const reader = new UsageReader();
  reader.push(Buffer.from(answer));
  expect(reader.read()).toBeUndefined();
});

test.each([
  ["a schema that the answer repeats", { text: { schema: { usage: forged() } }, output: [], usage: reported() }],
  [
    "a call's input",
    { type: "message", content: [{ type: "tool_use", input: { usage: forged() } }], usage: reported() },
  ],
])("%s does not change the counts", (_, answer) => {
  const bodies = [JSON.stringify(answer), event({ type: "response.created", response: answer }).repeat(2)];
  for (const body of bodies) {
    const reader = new UsageReader();
    reader.push(Buffer.from(body));
    expect(reader.counts()).toEqual({ fresh: 1000, cacheRead: 0, cacheWrite: 0, output: 3000, reasoning: 0 });
  }
});

function reported() {
  return { input_tokens: 1000, output_tokens: 3000 };
}

function forged() {
  return { prompt_tokens: 0, completion_tokens: 1, completion_tokens_details: { reasoning_tokens: 1 } };
}

test("counts that are not numbers are ignored", () => {
  const reader = new UsageReader();
  reader.push(Buffer.from('{"usage":{"prompt_tokens":"many","completion_tokens":-1}}'));
  expect(reader.read()).toEqual({ inputTokens: undefined, outputTokens: undefined });
});

test("usage is searched in the last four kibibytes", () => {
  for (const [numBytes, outputTokens] of [
    [4096, 7],
    [4097, undefined],
  ] as const) {
    const reader = new UsageReader();
    reader.push(Buffer.from(`${"x".repeat(9000)}${JSON.stringify({ usage }).slice(1).padEnd(numBytes)}`));
    expect(reader.read()?.outputTokens).toBe(outputTokens);
  }
});

const limited = { status: "incomplete", error: null, incomplete_details: { reason: "max_output_tokens" } };
const filtered = { ...limited, incomplete_details: { reason: "content_filter" } };
const whole = { status: "completed", error: null, incomplete_details: null };

test.each([
  ["a long answer of /v1/responses that reached its limit", limited, true],
  ["one that a filter cut", filtered, false],
  ["a whole one", whole, false],
])("%s is told, whole and as a stream, however it is cut into chunks", (_, head, isTruncated) => {
  const said = `event: response.incomplete\n"incomplete_details":{"reason":"max_output_tokens"}`;
  const content = `${said}${"x".repeat(9000)}${said}`;
  const response = { id: "r", ...head, output: [{ type: "message", content }], text: content, usage: reported() };
  const type = head === whole ? "response.completed" : "response.incomplete";
  const stream =
    event({ type: "response.created", response: { id: "r", ...whole } }, "response.created") +
    event({ type: "response.output_text.delta", delta: content }, "response.output_text.delta") +
    event({ type, sequence_number: 3, response }, type);
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3000 }), fc.boolean(), (size, isStream) => {
      const reader = new UsageReader();
      const bytes = Buffer.from(isStream ? stream : JSON.stringify(response));
      for (let at = 0; at < bytes.length; at += size) {
        if (isStream) reader.pushEvents(bytes.subarray(at, at + size));
        else reader.push(bytes.subarray(at, at + size));
      }
      expect(reader.endsByLength()).toBe(isTruncated);
    }),
  );
});

test.each([
  ["a line feed", "\n"],
  ["a carriage return and a line feed", "\r\n"],
])("a stream whose lines end with %s counts a token for each event, however it is cut into chunks", (_, lineEnd) => {
  const stream = Array.from({ length: 21 }, () => `data: {"text":"\\r\\n\\n"}${lineEnd}${lineEnd}`).join("");
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), (size) => {
      const reader = new UsageReader();
      const bytes = Buffer.from(stream);
      for (let at = 0; at < bytes.length; at += size) reader.pushEvents(bytes.subarray(at, at + size));
      expect(reader.estimate(7)).toMatchObject({ fresh: 7, output: 20, isEstimated: true });
    }),
  );
});

describe("a stream of /v1/responses that is cut", () => {
  const named = (type: string, fields: object) => event({ type, ...fields }, type);
  const usage = { input_tokens: 1, output_tokens: 1 };
  const tools = [{ type: "function", name: "f", parameters: { default: { usage } } }];
  const long = [
    ...tools,
    { type: "function", name: "g", description: "x".repeat(6000), parameters: { default: { usage } } },
  ];
  const deltas = named("response.output_text.delta", { delta: "w" }).repeat(40);

  test.each([
    ["short", tools, deltas],
    ["with long tools", long, deltas],
    ["before its first text", tools, ""],
    ["with long tools, before its first text", long, ""],
  ])("%s counts no report in the tools that it repeats", (_, repeated, rest) => {
    const reader = new UsageReader();
    const response = { id: "r", tools: repeated };
    reader.pushEvents(
      Buffer.from(named("response.created", { response }) + named("response.in_progress", { response })),
    );
    reader.pushEvents(Buffer.from(rest));
    expect(reader.estimate(5000)).toMatchObject({ fresh: 5000, isEstimated: true });
  });

  test("has its report when it is whole, whose event repeats the tools too", () => {
    const reader = new UsageReader();
    const response = { id: "r", tools };
    const report = { input_tokens: 30, output_tokens: 40 };
    for (const name of ["response.created", "response.in_progress"]) {
      reader.pushEvents(Buffer.from(named(name, { response })));
    }
    reader.pushEvents(Buffer.from(deltas + named("response.completed", { response: { ...response, usage: report } })));
    expect(reader.read()).toEqual({ inputTokens: 30, outputTokens: 40 });
  });
});
