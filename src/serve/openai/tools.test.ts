/**
 * Tools and reasoning of chat completions: refusals, the template's input, and the answer.
 * size: the cases are requests and answers as JSON
 */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import {
  mistralTemplate,
  strangeToolTemplate,
  thinkingTemplate,
  toolTemplate,
} from "../../../test/helpers/chat-templates.js";
import { chatMl, fakeAppOptions } from "../../../test/helpers/fake-server.js";
import { BOS_ID, EOS_ID, fakeTokenizer, TOOL_CALLS_ID } from "../../../test/helpers/fake-tokenizer.js";
import { createApp } from "../app.js";
import type { AppOptions } from "../http/context.js";

const tool = (name: string, rest: object = {}) => ({ type: "function", function: { name, ...rest } });
const tools = [
  tool("get_weather", { description: "Weather", parameters: { type: "object", properties: {} }, strict: true }),
  tool("now"),
];
/** A schema that no grammar can enforce. */
const keptNot = (strict: boolean) => ({
  strict,
  parameters: { type: "object", properties: { a: { type: "string", pattern: "(?<=a)b" } } },
});
const textual = (strict: boolean) => tool("f", { strict, parameters: { type: "string" } });
const messages: object[] = [{ role: "user", content: "hi" }];
const forced = (name: string) => ({ type: "function", function: { name } });
const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>';

async function post(fields: object, script: string | readonly number[] = "ok", overrides: Partial<AppOptions> = {}) {
  const engine = typeof script === "string" ? writing(script) : { script: () => script };
  const options = { chatTemplate: toolTemplate, ...overrides };
  const answer = await ask("/v1/chat/completions", { messages, ...fields }, engine, options);
  return { ...answer, error: answer.body.error, choice: answer.body.choices?.[0] };
}

type Refusal = readonly [name: string, fields: object, param: string, code?: string, overrides?: Partial<AppOptions>];

const assistant = (call: object) => [{ role: "assistant", content: null, tool_calls: [call] }];
const UNSUPPORTED = "unsupported_field";

const REFUSALS: readonly Refusal[] = [
  ["a tool without a function", { tools: [{ type: "function" }] }, "tools[0].function"],
  ["another type of tool", { tools: [{ type: "custom", custom: {} }] }, "tools[0].type"],
  ["a name with a space", { tools: [tool("a b")] }, "tools[0].function.name"],
  ["an empty name", { tools: [tool("")] }, "tools[0].function.name"],
  ["a long name", { tools: [tool("a".repeat(65))] }, "tools[0].function.name"],
  ["a name twice", { tools: [...tools, tool("now")] }, "tools[2].function.name"],
  ["parameters of text", { tools: [tool("f", { parameters: "{}" })] }, "tools[0].function.parameters"],
  ["an unknown part of a tool", { tools: [tool("f", { colour: 1 })] }, "tools[0].function.colour", "unknown_field"],
  ["129 tools", { tools: Array.from({ length: 129 }, (_, i) => tool(`f${i}`)) }, "tools"],
  ["a strange choice", { tools, tool_choice: "any" }, "tool_choice"],
  ["a choice of an unknown tool", { tools, tool_choice: forced("other") }, "tool_choice"],
  ["a required call without tools", { tool_choice: "required" }, "tool_choice"],
  ["a forced call without tools", { tools: [], tool_choice: forced("now") }, "tool_choice"],
  ["a strict schema that cannot be kept", { tools: [tool("f", keptNot(true))] }, "tools[0].function.parameters"],
  ["strict arguments of text", { tools: [textual(true)], tool_choice: "required" }, "tools[0].function.parameters"],
  ["a forced call without an end", { tools, tool_choice: "required", ignore_eos: true }, "ignore_eos"],
  ["tools for a template without", { tools }, "tools", UNSUPPORTED, { chatTemplate: chatMl }],
  ["tools in an unknown format", { tools }, "tools", UNSUPPORTED, { chatTemplate: strangeToolTemplate }],
  ["tools without a template", { tools }, "", "template_missing", { chatTemplate: undefined }],
  ["a strange effort", { reasoning_effort: "much" }, "reasoning_effort"],
  ["a result without a call", { messages: [{ role: "tool", content: "1" }] }, "messages[0].tool_call_id"],
  ["a result of no call", { messages: [{ role: "tool", name: "f", content: "1" }] }, "messages[0].tool_call_id"],
  [
    "a user's call",
    { messages: [{ ...assistant({ id: "a", function: { name: "f", arguments: "" } })[0], role: "user", content: "" }] },
    "messages[0].tool_calls",
  ],
  [
    "a call without an id",
    { messages: assistant({ function: { name: "f", arguments: "{}" } }) },
    "messages[0].tool_calls[0].id",
  ],
  [
    "arguments that are no text",
    { messages: assistant({ id: "a", function: { name: "f", arguments: {} } }) },
    "messages[0].tool_calls[0].function.arguments",
  ],
];

describe("refusals", () => {
  it.each(REFUSALS)("%s", async (...refusal) => {
    const [, fields, param, code = "invalid_parameter", overrides = {}] = refusal as unknown as Refusal;
    const { status, error, fake } = await post(fields, "", overrides);
    expect(error).toMatchObject({ code, param: param === "" ? null : param });
    expect(error.message).toMatch(/expected .*got /);
    expect(status).toBe(400);
    expect(fake.engine.submitted).toHaveLength(0);
  });
});

describe("the template", () => {
  it("receives the tools without fields for the server only", async () => {
    const { prompt } = await post({ tools });
    const shown = JSON.parse(prompt.split("\n")[0]!);
    expect(shown).toEqual([
      tool("get_weather", { description: "Weather", parameters: { type: "object", properties: {} } }),
      tool("now"),
    ]);
  });

  it("receives calls with arguments as objects, results with their ids, and reasoning", async () => {
    const call = {
      id: "call_1",
      type: "function",
      index: 0,
      function: { name: "get_weather", arguments: '{"city":"Paris"}' },
    };
    const { prompt } = await post({
      messages: [
        ...messages,
        { role: "assistant", content: null, tool_calls: [call], reasoning: "hm" },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "sun" }] },
      ],
    });
    expect(prompt).toContain('assistant\n<think>hm</think>CALL call_1 get_weather {"city": "Paris"}<|im_end|>');
    expect(prompt).toContain("tool\nsun FOR call_1<|im_end|>");
    const named = { role: "tool", name: "get_weather", content: "sun" };
    const turns = [...messages, { role: "assistant", content: null, tool_calls: [call] }, named];
    expect((await post({ messages: turns })).prompt).toContain("tool\nsun FOR call_1<|im_end|>");
  });

  it("receives tools from /tokenize, too", async () => {
    const { options } = fakeAppOptions({}, { chatTemplate: toolTemplate });
    const count = async (fields: object): Promise<number> => {
      const request = { method: "POST", body: JSON.stringify({ messages, ...fields }) };
      const answer = (await (await createApp(options).request("/tokenize", request)).json()) as { count: number };
      return answer.count;
    };
    expect(await count({ tools })).toBeGreaterThan((await count({ tools: [] })) + 50);
  });

  it("of Mistral receives ids of nine characters", async () => {
    const call = { id: "call_0123456789abcdef", function: { name: "now", arguments: "" } };
    const results = [{ role: "tool", tool_call_id: call.id, content: "12" }];
    const { prompt } = await post({ messages: [...messages, ...assistant(call), ...results] }, "", {
      chatTemplate: mistralTemplate,
    });
    expect(prompt).toContain("CALL 789abcdef now {}");
    expect(prompt).toContain("12 FOR 789abcdef");
  });

  it("receives no tools if none may be called, and the answer is text", async () => {
    const { prompt, choice } = await post({ tools, tool_choice: "none" }, CALL);
    expect(prompt).not.toContain("get_weather");
    expect(choice).toMatchObject({ finish_reason: "stop", message: { content: CALL } });
    expect(choice.message).not.toHaveProperty("tool_calls");
    // Templates without tool support are accepted, since tool_choice none needs none.
    expect((await post({ tools, tool_choice: "none" }, "ok", { chatTemplate: chatMl })).status).toBe(200);
  });

  it("receives the effort, and the request to skip reasoning if it supports that", async () => {
    const none = await post({ reasoning_effort: "none" }, "", { chatTemplate: thinkingTemplate });
    expect(none.prompt.endsWith("none<think></think>")).toBe(true);
    const low = await post({ reasoning_effort: "low" }, "", { chatTemplate: thinkingTemplate });
    expect(low.prompt.endsWith("low<think>\n")).toBe(true);
    const own = { reasoning_effort: "none", chat_template_kwargs: { enable_thinking: true } };
    expect((await post(own, "", { chatTemplate: thinkingTemplate })).prompt.endsWith("none<think>\n")).toBe(true);
  });
});

describe("calls", () => {
  it("are extracted from the text", async () => {
    const { choice } = await post({ tools, logprobs: true }, `I look.\n${CALL}\n${CALL}`);
    expect(choice.finish_reason).toBe("tool_calls");
    expect(choice.message.content).toBe("I look.");
    expect(choice.message.tool_calls).toEqual([
      {
        id: expect.stringMatching(/^call_\w{24,}$/),
        type: "function",
        function: { name: "get_weather", arguments: '{"city": "Paris"}' },
      },
      { id: expect.any(String), type: "function", function: { name: "get_weather", arguments: '{"city": "Paris"}' } },
    ]);
    expect(choice.message.tool_calls[0].id).not.toBe(choice.message.tool_calls[1].id);
    const tokens = choice.logprobs.content as { token: string }[];
    expect(tokens.map(({ token }) => token).join("")).toBe("I look.");
  });

  it("alone leave no content", async () => {
    expect((await post({ tools }, CALL)).choice.message.content).toBeNull();
  });

  it("of strict functions follow their schemas, wherever they begin", async () => {
    const { grammar } = await post({ tools }, "", { reasoningParser: "none" });
    expect(grammar).toContain('TagDispatch(("<tool_call>", ');
    expect(grammar).not.toContain("</think>");
    const thinking = await post({ tools }, "", { chatTemplate: thinkingTemplate });
    expect(thinking.grammar).toContain('TagDispatch(("</think>", ');
    const special = await post({ tools }, "", { chatTemplate: mistralTemplate });
    expect(special.grammar).toContain('[\\xff\\xff] "[TOOL_CALLS]"');
    expect((await post({ tools: [tool("now")] })).grammar).toBeUndefined();
  });

  it("of unknown functions are text", async () => {
    const { choice } = await post({ tools: [tool("now")] }, CALL);
    expect(choice).toMatchObject({ finish_reason: "stop", message: { content: CALL } });
  });

  it("end the answer after the first if parallel calls are disabled", async () => {
    const { choice, body, fake } = await post({ tools, parallel_tool_calls: false }, `${CALL}${CALL}`);
    expect(choice.message.tool_calls).toHaveLength(1);
    expect(choice).toMatchObject({ finish_reason: "tool_calls", stop_reason: null });
    expect(body.usage.completion_tokens).toBe(CALL.indexOf("}}") + 2);
    expect(fake.engine.numAborted).toBe(1);
  });

  it("are cut off by a stop string and by the length", async () => {
    const stopped = await post({ tools, stop: "Par" }, CALL);
    expect(stopped.choice).toMatchObject({ finish_reason: "tool_calls", stop_reason: "Par" });
    expect(stopped.choice.message.tool_calls[0].function.arguments).toBe('{"city": "');
    const short = await post({ tools, max_tokens: CALL.indexOf("ris") }, CALL);
    expect(short.choice.finish_reason).toBe("length");
    expect(short.choice.message.tool_calls[0].function.arguments).toBe('{"city": "Pa');
  });

  it("are recognised after a special token, and other special tokens stay hidden", async () => {
    const script = [97, BOS_ID, TOOL_CALLS_ID, ...Buffer.from('[{"name": "now", "arguments": {}}]'), EOS_ID];
    const { choice } = await post({ tools }, script, { chatTemplate: mistralTemplate });
    expect(choice.message).toMatchObject({
      content: "a",
      tool_calls: [{ function: { name: "now", arguments: "{}" } }],
    });
    const { choice: plain } = await post({}, script, { chatTemplate: mistralTemplate });
    expect(plain.message.content).toBe('a[{"name": "now", "arguments": {}}]');
  });

  it("are parsed in the format of the flag", async () => {
    const options = { chatTemplate: strangeToolTemplate, toolCallParser: "llama3_json" } as const;
    const { choice } = await post({ tools }, '{"name": "now", "parameters": {}}', options);
    expect(choice.message.tool_calls).toHaveLength(1);
  });
});

describe("forced calls", () => {
  it("of a function begin in the prompt and are the only one", async () => {
    const fields = { tools, tool_choice: forced("get_weather") };
    const { choice, prompt, body } = await post(fields, ` {"city": "Rome"}}\n</tool_call>${CALL}`);
    expect(prompt.endsWith('<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments":')).toBe(true);
    expect(choice.message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: "get_weather", arguments: '{"city": "Rome"}' } }],
    });
    expect(choice.finish_reason).toBe("tool_calls");
    expect(body.usage.completion_tokens).toBe(' {"city": "Rome"}}'.length);
  });

  it("of any function leave the name to the model", async () => {
    const { choice, prompt } = await post(
      { tools, tool_choice: "required" },
      `now", "arguments": {}}\n</tool_call>${CALL}`,
    );
    expect(prompt.endsWith('<tool_call>\n{"name": "')).toBe(true);
    const names = choice.message.tool_calls.map((call) => call.function.name);
    expect(names).toEqual(["now", "get_weather"]);
  });

  it("that the model does not complete are content, including the opening", async () => {
    const { choice } = await post({ tools, tool_choice: "required" }, "no");
    expect(choice).toMatchObject({ finish_reason: "stop", message: { content: '<tool_call>\n{"name": "no' } });
  });

  it("follow the function's name and schema", async () => {
    const grammarOf = async (fields: object) => (await post(fields, "")).grammar;
    const any = await grammarOf({ tools, tool_choice: "required" });
    expect(any).toContain('"get_weather\\", \\"arguments\\":"');
    expect(any).toContain('"now\\", \\"arguments\\":"');
    const named = await grammarOf({ tools, tool_choice: forced("now") });
    expect(named).not.toContain("get_weather");
    // For a function that is not strict, a schema that cannot be enforced is ignored.
    for (const lax of [tool("f", keptNot(false)), textual(false)]) {
      expect(await grammarOf({ tools: [lax], tool_choice: "required" })).toContain('"f\\"');
      expect(await grammarOf({ tools: [lax] })).toBeUndefined();
    }
    expect(await grammarOf({ tools, tool_choice: "none" })).toBeUndefined();
  });

  it("end the reasoning that a template opens", async () => {
    const fields = { tools, tool_choice: forced("now") };
    const { choice, prompt } = await post(fields, "{}}", { chatTemplate: thinkingTemplate });
    expect(prompt.endsWith('<think>\n\n</think>\n\n<tool_call>\n{"name": "now", "arguments":')).toBe(true);
    expect(choice.message).toMatchObject({
      content: null,
      tool_calls: [{ function: { name: "now", arguments: "{}" } }],
    });
  });
});

describe("tools together with a form", () => {
  const schema = { type: "object", properties: { a: { const: 1 } }, required: ["a"], additionalProperties: false };
  const response_format = { type: "json_schema", json_schema: { name: "f", schema, strict: true } };
  const lax = [tool("now")];

  it("allow the answer to be a call or of the form", async () => {
    for (const fields of [{ tools }, { tools: lax, parallel_tool_calls: false }, { tools, tool_choice: "auto" }]) {
      const said = await post({ ...fields, response_format }, '{"a":1}');
      expect(said.choice).toMatchObject({ finish_reason: "stop", message: { content: '{"a":1}' } });
      expect(said.choice.message).not.toHaveProperty("tool_calls");
      expect(said.grammar).toContain('"\\"a\\""');
      expect(said.grammar).toContain('"now\\", \\"arguments\\":"');
    }
    const called = await post({ tools, response_format }, CALL);
    const { content, tool_calls } = called.choice.message;
    expect({ content, names: tool_calls.map((call) => call.function.name) }).toEqual({
      content: null,
      names: ["get_weather"],
    });
  });

  it("replace the form if a call is forced, and do not affect it if no call is allowed", async () => {
    const call = await post({ tools, response_format, tool_choice: forced("now") }, " {}}\n</tool_call>");
    expect(call.choice.message).toMatchObject({ tool_calls: [{ function: { name: "now", arguments: "{}" } }] });
    expect(call.grammar).not.toContain('"\\"a\\""');
    const none = await post({ tools, response_format, tool_choice: "none" }, '{"a":1}');
    expect(none.choice.message.content).toBe('{"a":1}');
    expect(none.grammar).not.toContain("now");
  });

  it("accept regular expressions and choices, but not a custom grammar", async () => {
    for (const structured of [{ regex: "a+" }, { choice: ["a", "b"] }, { json_object: true }, { json: schema }]) {
      const { status, grammar } = await post({ tools, structured_outputs: structured }, "a");
      expect(status).toBe(200);
      expect(grammar).toContain("get_weather");
    }
    const refused = await post({ tools, structured_outputs: { grammar: 'root ::= "a"' } });
    expect(refused.error).toMatchObject({ code: "invalid_parameter", param: "tools" });
  });

  it("allow reasoning first", async () => {
    const thinking = { chatTemplate: thinkingTemplate };
    const { choice, prompt, grammar } = await post({ tools, response_format }, 'why\n</think>\n\n{"a":1}', thinking);
    expect(prompt.endsWith("<think>\n")).toBe(true);
    expect(choice.message).toMatchObject({ reasoning: "why", content: '{"a":1}' });
    // The answer continues after its reasoning.
    expect(grammar).not.toContain("stop_eos=true");
  });
});

describe("reasoning", () => {
  const thinking = { chatTemplate: thinkingTemplate };

  it("is split from the answer and counted", async () => {
    const { choice, body } = await post({}, "why\n</think>\n\nbecause", thinking);
    expect(choice.message).toEqual({
      role: "assistant",
      content: "because",
      refusal: null,
      reasoning_content: "why",
      reasoning: "why",
    });
    expect(body.usage.completion_tokens_details).toEqual({ reasoning_tokens: "why\n</think>".length });
  });

  it("comes before calls", async () => {
    const { choice } = await post({ tools }, `why</think>${CALL}`, thinking);
    expect(choice.message).toMatchObject({ content: null, reasoning: "why" });
    expect(choice.message.tool_calls).toHaveLength(1);
  });

  it("is the whole answer if the length limit ends it", async () => {
    const { choice } = await post({ max_tokens: 3 }, "because", thinking);
    expect(choice).toMatchObject({ finish_reason: "length", message: { content: null, reasoning: "bec" } });
  });

  it("follows the flag", async () => {
    const text = "<think>a</think>b";
    const off = await post({}, text, { ...thinking, reasoningParser: "none" });
    expect(off.choice.message.content).toBe(text);
    expect(off.body.usage).not.toHaveProperty("completion_tokens_details");
    const on = await post({}, text, { chatTemplate: chatMl, reasoningParser: "think" });
    expect(on.choice.message).toMatchObject({ content: "b", reasoning: "a" });
    expect((await post({}, text, { chatTemplate: chatMl })).choice.message.content).toBe(text);
  });

  it("is expected if the vocabulary has tokens for it", async () => {
    const idByText: Readonly<Record<string, number>> = { "<think>": 7, "</think>": 8 };
    const encode: AppOptions["tokenizer"]["encode"] = (text, options) =>
      idByText[text] === undefined ? fakeTokenizer.encode(text, options) : [idByText[text]];
    const tokenizer = { ...fakeTokenizer, encode };
    const split = await post({}, "<think>a</think>b", { chatTemplate: chatMl, tokenizer });
    expect(split.choice.message).toMatchObject({ content: "b", reasoning: "a" });
  });
});
