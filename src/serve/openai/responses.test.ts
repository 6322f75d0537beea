/** Tools and reasoning of /v1/responses: refusals, the template's input, and the answer. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { thinkingTemplate, toolTemplate } from "../../../test/helpers/chat-templates.js";
import { chatMl } from "../../../test/helpers/fake-server.js";
import type { AppOptions } from "../http/context.js";

const parameters = { type: "object", properties: {} };
const tool = (name: string, rest: object = {}) => ({ type: "function", name, ...rest });
const tools = [tool("weather", { description: "Weather", parameters, strict: true }), tool("now")];
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>';
const thinking = { chatTemplate: thinkingTemplate };

async function post(fields: object, answer = "ok", overrides: Partial<AppOptions> = {}) {
  const options = { chatTemplate: toolTemplate, ...overrides };
  return ask("/v1/responses", { input: "hi", ...fields }, writing(answer), options);
}

type Refusal = readonly [name: string, fields: object, param: string, code?: string, overrides?: Partial<AppOptions>];

const UNSUPPORTED = "unsupported_field";
const keptNot = tool("f", {
  strict: true,
  parameters: { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } },
});
const format = (schema: object) => ({ format: { type: "json_schema", name: "f", schema } });
const message = (content: unknown, rest: object = {}) => ({ input: [{ role: "user", content, ...rest }] });

const REFUSALS: readonly Refusal[] = [
  ["a tool of the provider", { tools: [{ type: "search" }] }, "tools[0].type", UNSUPPORTED],
  ["a tool in chat's form", { tools: [{ type: "function", function: { name: "f" } }] }, "tools[0].name"],
  ["a name twice", { tools: [...tools, tool("now")] }, "tools[2].name"],
  ["parameters of text", { tools: [tool("f", { parameters: "{}" })] }, "tools[0].parameters"],
  ["a strict schema that cannot be kept", { tools: [keptNot] }, "tools[0].parameters"],
  ["a choice of an unknown tool", { tools, tool_choice: tool("other") }, "tool_choice"],
  ["a required call without tools", { tool_choice: "required" }, "tool_choice"],
  ["tools for a template without", { tools }, "tools", UNSUPPORTED, { chatTemplate: chatMl }],
  ["a strange form", { text: { format: { type: "yaml" } } }, "text.format.type"],
  ["a form without a schema", { text: { format: { type: "json_schema", name: "f" } } }, "text.format.schema"],
  ["a schema that cannot be kept", { text: format({ type: "string", pattern: "(?<=a)b" }) }, "text.format.schema"],
  ["an unknown part of text", { text: { colour: 1 } }, "text.colour", "unknown_field"],
  ["a strange effort", { reasoning: { effort: "much" } }, "reasoning.effort"],
  ["a strange inclusion", { include: ["everything"] }, "include[0]"],
  ["logprobs beside tools", { tools, include: ["message.output_text.logprobs"] }, "include"],
  ["more logprobs than there are", { top_logprobs: 1000 }, "top_logprobs"],
  ["a strange truncation", { truncation: "middle" }, "truncation"],
  ["work in the background", { background: true }, "background", UNSUPPORTED],
  ["a conversation", { conversation: "conv_1" }, "conversation", UNSUPPORTED],
  ["an id that is none", { previous_response_id: 7 }, "previous_response_id"],
  ["an image", message([{ type: "input_image" }]), "input[0].content[0].type", UNSUPPORTED],
  ["a part without text", message([{ type: "input_text" }]), "input[0].content[0].text"],
  ["a tool's message", { input: [{ role: "tool", content: "a" }] }, "input[0].role"],
  ["a call without arguments", { input: [{ type: "function_call", call_id: "a", name: "f" }] }, "input[0].arguments"],
  ["a result without a call", { input: [{ type: "function_call_output", output: "a" }] }, "input[0].call_id"],
  ["nothing", { input: [] }, "input", "empty_prompt"],
];

describe("refusals", () => {
  it.each(REFUSALS)("%s", async (...refusal) => {
    const [, fields, param, code = "invalid_parameter", overrides = {}] = refusal as unknown as Refusal;
    const { status, body, fake } = await post(fields, "", overrides);
    expect(body.error).toMatchObject({ code, param });
    expect(body.error.message).toMatch(/expected .*got /);
    expect(status).toBe(400);
    expect(fake.engine.submitted).toHaveLength(0);
  });
});

it("of a wrong choice of tools names each form once", async () => {
  const { body } = await post({ tools, tool_choice: 7 });
  expect(body.error.message).toBe('tool_choice: expected one of "none", "auto", "required" or an object, got 7');
  const unnamed = await post({ tools, tool_choice: { type: "function" } });
  expect(unnamed.body.error.message).toMatch(
    /^tool_choice: expected one of .* or an object with another value as name or an object with "allowed_tools" as type, got/,
  );
});

describe("an agent's request", () => {
  it("keeps its functions, and the answer names the kinds of tools that are left out", async () => {
    const others = [{ type: "web_search" }, { type: "custom", name: "apply_patch" }, { type: "namespace", name: "n" }];
    const { status, headers, prompt } = await post({ tools: [...others, tool("now"), others[0]], client_metadata: {} });
    expect(status).toBe(200);
    expect(headers.get("x-millrace-unenforced")).toBe("web_search, custom, namespace");
    expect(prompt).toContain('"now"');
    expect(prompt).not.toContain("apply_patch");
  });

  it("may hold calls of tools that take text, and steps of the provider's tools", async () => {
    const input = [
      { role: "user", content: "Mend it." },
      { type: "web_search_call", id: "w", status: "completed" },
      { type: "mcp_list_tools", id: "m", server_label: "s", tools: [] },
      { type: "compaction", id: "c", encrypted_content: "x" },
      { type: "custom_tool_call", call_id: "c", name: "patch", input: "+ a" },
      { type: "custom_tool_call_output", call_id: "c", output: "done" },
    ];
    const { status, prompt } = await post({ input, tools });
    expect(status).toBe(200);
    expect(prompt).toContain('{"input":"+ a"}'.replace(":", ": "));
    expect(prompt).toContain("done");
  });
});

describe("the output", () => {
  it("of a call is a separate item", async () => {
    const { body, prompt } = await post({ tools }, `I look.\n${CALL}\n${CALL}`);
    const functions = tools.map(({ type, strict: _, ...rest }: { type: string; strict?: boolean }) => ({
      type,
      function: rest,
    }));
    expect(JSON.parse(prompt.split("\n")[0]!)).toEqual(functions);
    const call = {
      id: expect.stringMatching(/^fc_[0-9a-f]{32}$/),
      type: "function_call",
      status: "completed",
      call_id: expect.stringMatching(/^call_[0-9a-f]{32}$/),
      name: "weather",
      arguments: '{"city": "Paris"}',
    };
    expect(body.output).toEqual([
      expect.objectContaining({ type: "message", content: [expect.objectContaining({ text: "I look." })] }),
      call,
      call,
    ]);
    expect(body).toMatchObject({ status: "completed", tools, tool_choice: "auto", parallel_tool_calls: true });
  });

  it("of reasoning is a separate item, and its tokens are counted", async () => {
    const asked = { reasoning: { effort: "high", summary: "auto" }, include: ["reasoning.encrypted_content"] };
    const { body, prompt } = await post(asked, "hm\n</think>\n\nyes", thinking);
    expect(prompt).toContain("high");
    expect(body.output).toMatchObject([
      {
        id: expect.stringMatching(/^rs_/),
        type: "reasoning",
        summary: [],
        content: [{ type: "reasoning_text", text: "hm" }],
      },
      { id: expect.stringMatching(/^msg_/), type: "message", content: [{ type: "output_text", text: "yes" }] },
    ]);
    expect(body.reasoning).toEqual({ effort: "high", summary: null });
    expect(body.usage.output_tokens_details).toEqual({ reasoning_tokens: "hm\n</think>".length });
    // Both are required in the types of OpenAI's clients.
    expect(body.usage).toMatchObject({ input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } });
  });

  it("has log-probabilities of its text on request", async () => {
    const { body } = await post({ top_logprobs: 2 }, "hm</think>\n\nyes", thinking);
    const [, message] = body.output as unknown as {
      content: { logprobs: { token: string; top_logprobs: object[] }[] }[];
    }[];
    const logprobs = message!.content[0]!.logprobs;
    expect(logprobs.map(({ token }) => token).join("")).toBe("yes");
    expect(logprobs.every(({ top_logprobs }) => top_logprobs.length === 2)).toBe(true);
    const included = await post({ include: ["message.output_text.logprobs"] }, "yes");
    expect(JSON.stringify(included.body.output)).toContain('"logprob":');
    expect(JSON.stringify((await post({}, "yes")).body.output)).not.toContain('"logprob":');
  });

  it("answers the end of a conversation that is too long, if the request allows truncation", async () => {
    const turn = (n: number) => [
      { role: "user", content: `question ${n} ${"x".repeat(400)}` },
      { role: "assistant", content: `answer ${n}` },
    ];
    const input = [...Array.from({ length: 40 }, (_, n) => turn(n)).flat(), { role: "user", content: "last" }];
    const fields = { input, instructions: "be brief" };
    expect((await post(fields, "yes")).body.error.code).toBe("context_length_exceeded");
    const { body, prompt } = await post({ ...fields, truncation: "auto" }, "yes");
    expect(body).toMatchObject({ status: "completed", truncation: "auto" });
    expect(prompt).toMatch(/^<\|im_start\|>system\nbe brief<\|im_end\|>\n<\|im_start\|>user\nquestion (3\d) /);
    expect(prompt).toContain("last");
    // One more turn would leave no room for the answer.
    expect(prompt.length + 480 + 256).toBeGreaterThan(4096);
    const one = await post({ input: "x".repeat(5000), truncation: "auto" }, "yes");
    expect(one.body.error.code).toBe("context_length_exceeded");
  });

  it("is an empty message if the answer is empty", async () => {
    const { body } = await post({ tools }, "");
    expect(body.output).toMatchObject([{ type: "message", status: "completed", content: [{ text: "" }] }]);
  });

  it("has an incomplete last item if it was cut off", async () => {
    const { body } = await post({ tools, max_output_tokens: `I look.\n${CALL}`.length - 20 }, `I look.\n${CALL}`);
    expect(body.output).toMatchObject([{ status: "completed" }, { status: "incomplete", arguments: '{"city": "P' }]);
    expect(body).toMatchObject({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } });
  });

  it("can be forced to calls, or limited to one call or none", async () => {
    const forced = await post({ tools, tool_choice: tool("weather") }, ' {"city": "Rome"}}\n</tool_call>');
    expect(forced.body.output).toMatchObject([{ name: "weather", arguments: '{"city": "Rome"}' }]);
    const single = await post({ tools, parallel_tool_calls: false }, `${CALL}${CALL}`);
    expect(single.body.output).toHaveLength(1);
    const none = await post({ tools, tool_choice: "none" }, CALL);
    expect(none.body.output).toMatchObject([{ type: "message", content: [{ text: CALL }] }]);
  });
});

describe("the form of the answer", () => {
  const schema = { type: "object", properties: { a: { const: 1 } }, required: ["a"], additionalProperties: false };

  it("goes to the engine, and the answer is one message", async () => {
    const { body, prompt, grammar } = await post({ text: format(schema) }, '{"a":1}', thinking);
    expect(grammar).toContain('"\\"a\\""');
    expect(prompt.endsWith("<think>\n\n</think>\n\n")).toBe(true);
    expect(body.output).toMatchObject([{ type: "message", content: [{ text: '{"a":1}' }] }]);
    expect(body.text).toEqual(format(schema));
  });

  it("is unconstrained by default and for text", async () => {
    for (const text of [{}, { verbosity: "low" }, { format: { type: "text" } }, { format: null }]) {
      const { grammar, body } = await post({ text });
      expect(grammar).toBeUndefined();
      expect(body.text).toEqual({ format: { type: "text" } });
    }
  });

  it("works with tools, whether they are called or not", async () => {
    const none = await post({ tools, tool_choice: "none", text: format(schema) }, '{"a":1}');
    expect(none.grammar).not.toContain("weather");
    const said = await post({ tools, text: format(schema) }, '{"a":1}');
    expect(said.body.output).toMatchObject([{ type: "message", content: [{ text: '{"a":1}' }] }]);
    expect(said.grammar).toContain("weather");
    const called = await post({ tools, text: format(schema) }, CALL);
    expect(called.body.output).toMatchObject([{ type: "function_call", name: "weather" }]);
  });
});

describe("the input", () => {
  it("accepts an answer's items as one turn, together with the results", async () => {
    const first = await post({ tools }, `hm</think>I look.${CALL}`, thinking);
    const call = first.body.output[2];
    expect(call.type).toBe("function_call");
    const input = [
      { role: "developer", content: "be brief" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "hi" }] },
      ...first.body.output,
      { type: "function_call_output", call_id: call.call_id, output: [{ type: "input_text", text: "sunny" }] },
    ];
    const { prompt, status } = await post({ input, tools }, "", thinking);
    expect(status).toBe(200);
    expect(prompt).toContain("<|im_start|>system\nbe brief<|im_end|>");
    const turn = `<think>hm</think>I look.CALL ${call.call_id} weather {"city": "Paris"}<|im_end|>`;
    expect(prompt).toContain(`<|im_start|>assistant\n${turn}`);
    expect(prompt).toContain(`<|im_start|>tool\nsunny FOR ${call.call_id}<|im_end|>`);
  });

  it("accepts calls without a text before them", async () => {
    const calls = ["a", "b"].map((id) => ({ type: "function_call", call_id: id, name: "now", arguments: "{}" }));
    const results = ["a", "b"].map((id) => ({ type: "function_call_output", call_id: id, output: `12 ${id}` }));
    const { prompt } = await post({ input: [{ role: "user", content: "hi" }, ...calls, ...results], tools });
    expect(prompt).toContain("assistant\nCALL a now {}CALL b now {}<|im_end|>");
    expect(prompt).toContain("12 a FOR a");
    expect(prompt).toContain("12 b FOR b");
  });
});
