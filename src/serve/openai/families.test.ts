/**
 * Calls and thoughts of model families through the endpoints: the prompt, the answer, and the equal content of a
 * stream.
 */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import {
  deepseekV3Template,
  deepseekV31Template,
  glmTemplate,
  graniteTemplate,
  hunyuanTemplate,
  kimiTemplate,
  mistralThinkingTemplate,
  nemotronTemplate,
  olmoTemplate,
  phiTemplate,
  qwenCoderTemplate,
  seedTemplate,
  thinkingTemplate,
  toolTemplate,
  xmlToolsTemplate,
} from "../../../test/helpers/chat-templates.js";
import { startFakeServer } from "../../../test/helpers/fake-server.js";
import { fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import { ChatTemplate } from "../../text/template/chat-template.js";
import { readChatFormat } from "../generation/chat-format.js";
import type { AppOptions } from "../http/context.js";

const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city"],
};
const weather = { name: "weather", description: "Weather of a city", parameters };
const tools = [{ type: "function", function: weather }];
const messages: object[] = [{ role: "user", content: "hi" }];
const ARGUMENTS = '{"city": "São Paulo", "days": 2}';

type Family = readonly [name: string, template: ChatTemplate, call: string];

const FAMILIES: readonly Family[] = [
  [
    "GLM",
    glmTemplate,
    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>São Paulo</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
  ],
  [
    "Qwen 3 Coder",
    qwenCoderTemplate,
    "<tool_call>\n<function=weather>\n<parameter=city>\nSão Paulo\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
  ],
  [
    "Seed-OSS",
    seedTemplate,
    "<seed:tool_call>\n<function=weather>\n<parameter=city>São Paulo</parameter>\n<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
  ],
  ["OLMo 3", olmoTemplate, '<function_calls>\nweather(city="São Paulo", days=2)\n</function_calls>'],
  ["Granite 3", graniteTemplate, `<|tool_call|>[{"name": "weather", "arguments": ${ARGUMENTS}}]`],
  ["Phi-4-mini", phiTemplate, `<|tool_call|>[{"name": "weather", "arguments": ${ARGUMENTS}}]<|/tool_call|>`],
  [
    "DeepSeek V3",
    deepseekV3Template,
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n\`\`\`json\n${ARGUMENTS}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    "DeepSeek V3.1",
    deepseekV31Template,
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>${ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    "Kimi K2",
    kimiTemplate,
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>${ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>`,
  ],
  ["Nemotron", nemotronTemplate, `<TOOLCALL>[{"name": "weather", "arguments": ${ARGUMENTS}}]</TOOLCALL>`],
  ["Hunyuan", hunyuanTemplate, `<tool_calls>[{"name": "weather", "arguments": ${ARGUMENTS}}]</tool_calls>`],
  ["SmolLM3", xmlToolsTemplate, `<tool_call>\n{"name": "weather", "arguments": ${ARGUMENTS}}\n</tool_call>`],
];

async function post(fields: object, text: string, overrides: Partial<AppOptions>) {
  const answer = await ask("/v1/chat/completions", { messages, ...fields }, writing(text), overrides);
  return { ...answer, choice: answer.body.choices?.[0] };
}

interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly [{ readonly function: { readonly name?: string; readonly arguments: string } }];
  readonly function_call?: { readonly name?: string; readonly arguments: string };
}

/** A stream's deltas, joined. */
async function streamed(fields: object, text: string, overrides: Partial<AppOptions>) {
  const { server } = await startFakeServer(writing(text), overrides);
  const body = JSON.stringify({ messages, stream: true, ...fields });
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", body });
  const events = (await response.text()).split("\n\n").filter((event) => event.startsWith("data: {"));
  await server.close();
  const choices = events.map((event) => JSON.parse(event.slice(6)).choices[0]);
  const sum = { content: "", reasoning: "", name: "", args: "", finish: "", numPieces: 0 };
  for (const { delta, finish_reason } of choices as { delta: Delta; finish_reason: string | null }[]) {
    sum.content += delta.content ?? "";
    sum.reasoning += delta.reasoning_content ?? "";
    const called = delta.tool_calls?.[0].function ?? delta.function_call;
    sum.name += called?.name ?? "";
    sum.args += called?.arguments ?? "";
    if (called !== undefined) sum.numPieces++;
    sum.finish = finish_reason ?? sum.finish;
  }
  return sum;
}

describe("calls", () => {
  it.each(FAMILIES)("of %s are read, and stream in pieces", async (_name, chatTemplate, call) => {
    const { choice, prompt } = await post({ tools }, `I look.\n${call}`, { chatTemplate });
    expect(prompt).toContain('"name": "weather"'.replaceAll(prompt.includes('"name":"') ? " " : "", ""));
    expect(choice.message).toMatchObject({
      content: "I look.",
      tool_calls: [{ type: "function", function: { name: "weather", arguments: ARGUMENTS } }],
    });
    expect(choice.finish_reason).toBe("tool_calls");
    const stream = await streamed({ tools }, `I look.\n${call}`, { chatTemplate });
    expect(stream).toMatchObject({ content: "I look.", name: "weather", args: ARGUMENTS, finish: "tool_calls" });
    // OLMo's calls come complete.
    expect(stream.numPieces).toBeGreaterThan(chatTemplate === olmoTemplate ? 0 : 4);
  });

  it.each(FAMILIES)("of %s come back in the next prompt as they were written", async (_name, chatTemplate, call) => {
    const made = { id: "c1", type: "function", function: { name: "weather", arguments: ARGUMENTS } };
    const turns = [
      ...messages,
      { role: "assistant", content: null, tool_calls: [made] },
      { role: "tool", tool_call_id: "c1", content: "sun" },
    ];
    const { prompt } = await post({ tools, messages: turns }, "ok", { chatTemplate });
    expect(prompt).toContain(`<|assistant|>${call}<|end|>`);
    expect(prompt).toContain("sun");
  });

  it.each(FAMILIES)("of %s can be forced", async (_name, chatTemplate, call) => {
    const [begun, rest] = call.split(
      /(?<=weather(?:>\n|\n(?!```)|\n```json\n|\(|", "arguments":|<｜tool▁sep｜>|:0<\|tool_call_argument_begin\|>))/,
    ) as [string, string];
    const forced = { tools, tool_choice: { type: "function", function: { name: "weather" } } };
    const { choice, prompt, grammar } = await post(forced, rest, { chatTemplate });
    expect(prompt.endsWith(begun)).toBe(true);
    expect(choice.message).toMatchObject({ content: null, tool_calls: [{ function: { arguments: ARGUMENTS } }] });
    expect(grammar).toContain("city");
  });

  it("whose values are free text refuse limits that are strict, and drop others", async () => {
    const limited = { type: "object", properties: { city: { type: "string", pattern: "^[A-Z]" } } };
    const asked = (strict: boolean) => ({
      tools: [{ type: "function", function: { ...weather, parameters: limited, strict } }],
      tool_choice: "required",
    });
    const { status, body } = await post(asked(true), "", { chatTemplate: qwenCoderTemplate });
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: "invalid_parameter", param: "tools[0].function.parameters" });
    expect(body.error.message).toContain("expected strings without limits");
    expect(body.error.message).toContain("got pattern");
    const lax = await post(asked(false), "", { chatTemplate: qwenCoderTemplate });
    expect(lax.grammar).toContain("parameter=");
  });
});

describe("thoughts", () => {
  it.each([
    ["Seed-OSS", seedTemplate, "<seed:think>why</seed:think>because"],
    ["Mistral", mistralThinkingTemplate, "[THINK]why[/THINK]because"],
    ["a template that opens them", thinkingTemplate, "why\n</think>\n\nbecause"],
  ])("of %s are split off, in streams too", async (_name, chatTemplate, text) => {
    const { choice, body } = await post({}, text, { chatTemplate });
    expect(choice.message).toMatchObject({ content: "because", reasoning_content: "why", reasoning: "why" });
    expect(body.usage.completion_tokens_details).toMatchObject({ reasoning_tokens: expect.any(Number) });
    expect(await streamed({}, text, { chatTemplate })).toMatchObject({ content: "because", reasoning: "why" });
    for (const path of ["/v1/messages", "/v1/responses", "/api/chat"]) {
      const fields = path === "/v1/responses" ? { input: "hi" } : { messages };
      const limits = path === "/v1/messages" ? { max_tokens: 99 } : { stream: false };
      const answer = await ask(path, { model: "fake", ...fields, ...limits }, writing(text), { chatTemplate });
      const said = JSON.stringify(answer.body);
      expect(said, path).toMatch(/"(thinking|text)":"why"/);
      expect(said, path).toMatch(/"(text|content)":"because"/);
    }
  });

  it("of Seed-OSS end by a budget of nothing, which their template is told", async () => {
    const text = "Nothing to think about.</seed:cot_budget_reflect></seed:think>because";
    for (const off of [{ reasoning_effort: "none" }, { enable_thinking: false }]) {
      const { prompt, choice } = await post(off, text, { chatTemplate: seedTemplate });
      expect(prompt.endsWith("<|assistant|><seed:think><seed:cot_budget_reflect>")).toBe(true);
      expect(choice.message.content).toBe("because");
    }
    expect((await post({}, "ok", { chatTemplate: seedTemplate })).prompt.endsWith("<|assistant|>")).toBe(true);
  });
});

describe("a budget of thoughts", () => {
  const ids: Readonly<Record<string, number>> = { "<think>": 7, "</think>": 8 };
  const encode: AppOptions["tokenizer"]["encode"] = (text, options) =>
    ids[text] === undefined ? fakeTokenizer.encode(text, options) : [ids[text]];
  const tokenizer = { ...fakeTokenizer, encode };
  const boundOf = async (path: string, fields: object, chatTemplate = thinkingTemplate) => {
    const { fake } = await ask(path, { messages, ...fields }, writing("ok"), { chatTemplate, tokenizer });
    return fake.engine.submitted[0]?.sampling.thought;
  };

  it("reaches the engine by every name, with the tokens of the model's markers", async () => {
    const bound = { maxTokens: 5, closeId: 8 };
    for (const fields of [
      { thinking_token_budget: 5 },
      { reasoning_budget: 5 },
      { reasoning: { max_tokens: 5 } },
      { thinking: { type: "enabled", budget_tokens: 5 } },
    ]) {
      expect(await boundOf("/v1/chat/completions", fields)).toEqual(bound);
    }
    const asked = { max_tokens: 99, thinking: { type: "enabled", budget_tokens: 5 } };
    expect(await boundOf("/v1/messages", asked)).toEqual(bound);
    expect(await boundOf("/v1/chat/completions", { thinking_token_budget: 0 }, toolTemplate)).toEqual({
      maxTokens: 0,
      closeId: 8,
      opening: { id: 7, blankIds: new Set(Buffer.from("\t\n\v\f\r ")) },
    });
  });

  it("is none for -1, for a forced call, and for markers that are not one token", async () => {
    expect(await boundOf("/v1/chat/completions", { thinking_token_budget: -1 })).toBeUndefined();
    const forced = { thinking_token_budget: 5, tools, tool_choice: "required" };
    expect(await boundOf("/v1/chat/completions", forced)).toBeUndefined();
    const { fake } = await post({ thinking_token_budget: 5 }, "ok", { chatTemplate: thinkingTemplate });
    expect(fake.engine.submitted[0]?.sampling.thought).toBeUndefined();
  });
});

describe("functions and function_call, OpenAI's earlier fields", () => {
  const call = `<tool_call>{"name": "weather", "arguments": ${ARGUMENTS}}</tool_call>`;
  const template = { chatTemplate: toolTemplate };

  it("call one function, whose answer has their form", async () => {
    const { choice, prompt, body } = await post({ functions: [weather] }, call + call, template);
    expect(prompt).toContain("Weather of a city");
    // The answer ends with its first call.
    expect(body.usage.completion_tokens).toBeLessThanOrEqual(Buffer.byteLength(call));
    expect(choice).toMatchObject({
      finish_reason: "function_call",
      message: { content: null, function_call: { name: "weather", arguments: ARGUMENTS } },
    });
    expect(choice.message).not.toHaveProperty("tool_calls");
    const stream = await streamed({ functions: [weather] }, call, template);
    expect(stream).toMatchObject({ name: "weather", args: ARGUMENTS, finish: "function_call" });
  });

  it("force a function, or forbid them all", async () => {
    const forced = { functions: [weather], function_call: { name: "weather" } };
    const { choice, prompt } = await post(forced, ` ${ARGUMENTS}}`, template);
    expect(prompt.endsWith('{"name": "weather", "arguments":')).toBe(true);
    expect(choice.message).toMatchObject({ function_call: { name: "weather" } });
    const none = await post({ functions: [weather], function_call: "none" }, call, template);
    expect(none.choice.message.content).toBe(call);
    expect((await post({ functions: [], function_call: "auto" }, "ok", template)).choice.message.content).toBe("ok");
  });

  it("take calls and results of that form in a conversation", async () => {
    const turns = [
      ...messages,
      { role: "assistant", content: null, function_call: { name: "weather", arguments: ARGUMENTS } },
      { role: "function", name: "weather", content: "sun" },
    ];
    const { prompt } = await post({ functions: [weather], messages: turns }, "ok", template);
    expect(prompt).toContain(`CALL call_1 weather ${ARGUMENTS}`);
    expect(prompt).toContain("sun FOR call_1");
  });

  it.each([
    [{ functions: [weather], tools }, "functions"],
    [{ function_call: "auto", tool_choice: "auto" }, "function_call"],
    [{ functions: [weather], function_call: { name: "other" } }, "function_call"],
    [{ functions: [weather, weather] }, "functions[1].name"],
    [
      {
        functions: [
          { ...weather, strict: true, parameters: { type: "object", properties: { city: { pattern: "(" } } } },
        ],
      },
      "functions[0].parameters",
    ],
    [{ functions: [{}] }, "functions[0].name"],
    [{ messages: [{ role: "function", name: "f", content: "1" }] }, "messages[0].tool_call_id"],
  ])("are refused: %j", async (fields, param) => {
    const { status, body } = await post(fields, "", template);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ code: "invalid_parameter", param });
  });
});

describe("a switch of thoughts by the template's own name", () => {
  // As in DeepSeek V3.1: off by default.
  const byThinking = new ChatTemplate(
    `{#- enable_thinking #}{% if not thinking is defined %}{% set thinking = false %}{% endif %}{% for m in messages %}{{ m['thinking'] | default('') }}{{ m.content }}{% endfor %}{{ '<think>' if thinking else '<think></think>' }}`,
  );
  const byComment = new ChatTemplate(
    `{# thinking #}{% for m in messages %}{{ m.thinking | default("thinking") }}{% endfor %}{{ '<think></think>' if thinking_effort }}`,
  );

  it.each([
    [{}, false],
    [{ enable_thinking: true }, true],
    [{ chat_template_kwargs: { thinking: true } }, true],
    [{ reasoning_effort: "high" }, true],
    [{ reasoning_effort: "none" }, false],
    [{ reasoning_effort: "high", chat_template_kwargs: { enable_thinking: false } }, false],
    [{ enable_thinking: true, reasoning_effort: "none" }, true],
  ])("%j", async (fields, isOn) => {
    const { prompt } = await post(fields, "ok", { chatTemplate: byThinking });
    expect(prompt.endsWith("<think></think>")).toBe(!isOn);
  });

  it("of the server's arguments yields to the request's", async () => {
    const options = { chatTemplate: byThinking, templateDefaults: { enable_thinking: true } };
    expect((await post({}, "ok", options)).prompt.endsWith("<think></think>")).toBe(false);
    expect((await post({ reasoning_effort: "none" }, "ok", options)).prompt.endsWith("<think></think>")).toBe(true);
  });

  it("is not read out of comments, texts and attributes", () => {
    const format = (chatTemplate: ChatTemplate) => readChatFormat({ tokenizer: fakeTokenizer, chatTemplate });
    expect(format(byThinking).thinkingSwitches).toEqual(["thinking"]);
    expect(format(byComment).thinkingSwitches).toEqual([]);
  });
});

it("the server's arguments of the template hold where a request has none of its own", async () => {
  const options = { chatTemplate: thinkingTemplate, templateDefaults: { enable_thinking: false } };
  expect((await post({}, "ok", options)).prompt.endsWith("<think></think>")).toBe(true);
  expect((await post({ enable_thinking: true }, "ok", options)).prompt.endsWith("<think>\n")).toBe(true);
  expect((await post({ reasoning_effort: "none" }, "ok", options)).prompt.endsWith("<think></think>")).toBe(true);
});
