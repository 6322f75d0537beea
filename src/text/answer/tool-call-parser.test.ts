/** For every format: texts that are calls, plain texts, and independence of how the text is cut. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutting } from "../../../test/helpers/cut-text.js";
import { cases } from "../../../test/helpers/long.js";
import { parsedCalls } from "../../../test/helpers/parsed-calls.js";
import type { AnswerPart } from "./answer-part.js";
import { callOpening, spellCalls, type ToolCallFormat } from "./call-format.js";
import { toolCallFormat } from "./call-formats.js";
import { hermes } from "./hermes.js";
import { granite, hunyuan, nemotron, phi4Mini } from "./json-list.js";
import { llama3Json } from "./llama3-json.js";
import { deepseekV3, deepseekV31, glm4, kimiK2 } from "./marked-calls.js";
import { mistral } from "./mistral.js";
import { ToolCallParser, type ToolCallParserOptions } from "./tool-call-parser.js";

const mistralArray = mistral("[TOOL_CALLS][");
const mistralArgs = mistral("[TOOL_CALLS] [ARGS]");
const phi4 = phi4Mini("<|tool|>");
const FORMATS: readonly ToolCallFormat[] = [
  hermes,
  llama3Json,
  mistralArray,
  granite,
  phi4,
  nemotron,
  hunyuan,
  deepseekV3,
  deepseekV31,
  kimiK2,
  glm4,
];
const callable = (...names: readonly string[]) => new Map(names.map((name) => [name, undefined]));

function parse(format: ToolCallFormat, pieces: readonly string[], options: Partial<ToolCallParserOptions> = {}) {
  return parsedCalls(format, pieces, { tools: callable("f", "g"), isSingle: false, ...options });
}

/** `f({"a":1})` for calls, text unchanged: easier to read than parts. */
function show(parts: readonly AnswerPart[]): string[] {
  const shown: string[] = [];
  for (const part of parts) {
    if (part.kind === "call") shown.push(`${part.index}:${part.name}`);
    else if (part.kind === "arguments") shown[shown.length - 1] += `(${part.text})`;
    else shown.push(part.text);
  }
  return shown;
}

type Example = readonly [name: string, format: ToolCallFormat, text: string, shown: readonly string[]];

const CALLS: readonly Example[] = [
  [
    "hermes",
    hermes,
    '<tool_call>\n{"name": "f", "arguments": {"a": [1, "}"]}}\n</tool_call>',
    ['0:f({"a": [1, "}"]})'],
  ],
  [
    "text, then two",
    hermes,
    'I look.\n<tool_call>\n{"name":"f","arguments":{}}\n</tool_call>\n<tool_call>{"name":"g","arguments":{"b":"\\"</tool_call>"}}</tool_call>\n',
    ["I look.", "0:f({})", '1:g({"b":"\\"</tool_call>"})'],
  ],
  ["text around a call", hermes, 'a\n<tool_call>{"name":"f","arguments":{}}</tool_call> b ', ["a", "0:f({})", "\n b"]],
  ["arguments before the name", hermes, '<tool_call>{"arguments": {"a":1}, "name": "f"}</tool_call>', ['0:f({"a":1})']],
  [
    "an id and a type",
    hermes,
    '<tool_call>{"id":7,"type":"function","name":"f","arguments":{}}</tool_call>',
    ["0:f({})"],
  ],
  ["escaped names", hermes, '<tool_call>{"n\\u0061me":"\\u0066","arguments":{}}</tool_call>', ["0:f({})"]],
  ["no closing tag", hermes, '<tool_call>{"name":"f","arguments":{}}', ["0:f({})"]],
  ["arguments cut off", hermes, '<tool_call>{"name":"f","arguments":{"a": tr', ['0:f({"a": tr)']],
  ["llama", llama3Json, '{"name": "f", "parameters": {"a": 1}}', ['0:f({"a": 1})']],
  ["llama's tag", llama3Json, 'so: <|python_tag|>{"name": "f", "parameters": {}}', ["so:", "0:f({})"]],
  [
    "several by semicolon or line",
    llama3Json,
    '\n\n{"name":"f","parameters":{}}; {"name":"g","parameters":{}}\n{"name":"f","parameters":{}}',
    ["0:f({})", "1:g({})", "2:f({})"],
  ],
  [
    "mistral's array",
    mistralArray,
    '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}, {"name": "g", "arguments": {}}]',
    ['0:f({"a": 1})', "1:g({})"],
  ],
  ["mistral's names", mistralArgs, '[TOOL_CALLS]f{"a":1}[TOOL_CALLS]g {}', ['0:f({"a":1})', "1:g({})"]],
  ["mistral's args", mistralArgs, 'ok[TOOL_CALLS]f[ARGS]{"a":1}', ["ok", '0:f({"a":1})']],
  ["mistral's ids", mistralArgs, "[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{}", ["0:f({})"]],
  [
    "a list in one element",
    hermes,
    '<tool_call>[{"name":"f","arguments":{}},{"name":"g","arguments":{}}]</tool_call>',
    ["0:f({})", "1:g({})"],
  ],
  ["granite", granite, 'ok <|tool_call|>[{"name": "f", "arguments": {"a": 1}}]', ["ok", '0:f({"a": 1})']],
  ["granite's text behind", granite, '<|tool_call|> [{"name":"f","arguments":{}}] x', ["0:f({})", "x"]],
  [
    "phi",
    phi4,
    '<|tool_call|>[{"name":"f","arguments":{}}, {"name":"g","parameters":{}}]<|/tool_call|>',
    ["0:f({})", "1:g({})"],
  ],
  [
    "phi's calls one by one",
    phi4,
    '<|tool_call|>{"name":"f","arguments":{}}<|/tool_call|><|tool_call|>{"name":"g","arguments":{}}',
    ["0:f({})", "1:g({})"],
  ],
  ["phi's functools", phi4Mini("functools[…]"), 'functools[{"name":"f","arguments":{"a":"]"}}]', ['0:f({"a":"]"})']],
  [
    "nemotron",
    nemotron,
    'ok\n\n<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]</TOOLCALL>\n',
    ["ok", '0:f({"a": 1})', "1:g({})"],
  ],
  [
    "hunyuan",
    hunyuan,
    '<tool_calls>\n[{"name": "f", "arguments": {"a": "</tool_calls>"}}]\n</tool_calls>',
    ['0:f({"a": "</tool_calls>"})'],
  ],
  ["granite's other opener", granite, 'ok <tool_call> [{"name": "f", "arguments": {"a": 1}}]', ["ok", '0:f({"a": 1})']],
  [
    "arguments in quotes",
    hermes,
    '<tool_call>{"name":"f","arguments":"{\\"a\\": [1]}"}</tool_call>',
    ['0:f({"a": [1]})'],
  ],
  ["quoted arguments before the name", granite, '<|tool_call|>[{"arguments":"{}","name":"f"}]', ["0:f({})"]],
  ["a list cut off between two calls", granite, '<|tool_call|>[{"name":"f","arguments":{}}, {', ["0:f({})"]],
  ["a list cut off in a name", mistralArray, '[TOOL_CALLS][{"name":"f","arguments":{}},{"name":"g', ["0:f({})"]],
  ["a list cut off before its first call", granite, '<|tool_call|>[{"na', ['<|tool_call|>[{"na']],
  ["a closing tag cut off", nemotron, '<TOOLCALL>[{"name":"f","arguments":{}}]</TOOL', ["0:f({})"]],
  ["hermes' closing tag cut off", hermes, '<tool_call>{"name":"f","arguments":{}}\n</tool', ["0:f({})"]],
  ["one mistral object", mistralArray, '[TOOL_CALLS]{"name":"f","arguments":{}}', ["0:f({})"]],
];

const TEXTS: readonly (readonly [format: ToolCallFormat, text: string])[] = [
  [hermes, "a < b <tool <tool_call> and <tool_call"],
  [hermes, '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>'],
  [hermes, `<tool_call>{"name": "f", "arguments": "x"}</tool_call>`],
  [hermes, `<tool_call>{"name": "f", "arguments": "[1]"}</tool_call>`],
  [hermes, '<tool_call>{"name": "f", "arguments": null}</tool_call>'],
  [hermes, '<tool_call>{"name": "f"}</tool_call>'],
  [hermes, '<tool_call>{"name": "f", "other": 1, "arguments": {}}</tool_call>'],
  [hermes, '<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>'],
  [hermes, "<tool_call>{}</tool_call>"],
  [hermes, "<tool_call>[]</tool_call> \n"],
  [granite, "<|tool_call|>[]"],
  [granite, '<|tool_call|>[{"name": "unknown", "arguments": {}}]'],
  [phi4Mini("functools["), "functools[1]"],
  [phi4Mini("functools["), "import functools"],
  [phi4Mini("functools["), "functools[]"],
  [hermes, '<tool_call>{"arguments": {"a": 1}, "name": "f'],
  [llama3Json, 'text first {"name": "f", "parameters": {}}'],
  [llama3Json, '{"name": "Bob", "parameters": {}}'],
  [llama3Json, '{"answer": 42}'],
  [llama3Json, "<|python_tag|>print(1)"],
  [mistralArray, "[TOOL_CALLS][]"],
  [mistralArray, "[TOOL_CALLS]unknown{}"],
  [mistralArray, "[TOOL_CALLS]f[ARGS]x"],
  [mistralArray, "[TOOL_CALLS]f[CALL_ID][ARGS]{}"],
  [mistralArray, "[TOOL] [INST]"],
];

describe("calls", () => {
  it.each(CALLS)("%s", (_name, format, text, shown) => {
    expect(show(parse(format, [text]))).toEqual(shown);
    expect(show(parse(format, text.split("")))).toEqual(shown);
  });

  it("that end inside their arguments keep the arguments received so far, and the rest is content", () => {
    const text =
      '<tool_call>{"name":"f","arguments":{"a": oops}}</tool_call><tool_call>{"name":"g","arguments":{}}</tool_call>';
    expect(show(parse(hermes, [text]))).toEqual(['0:f({"a": )', "oops}}</tool_call>", "1:g({})"]);
  });

  it("come out before they are complete", () => {
    const parser = new ToolCallParser(hermes, { tools: callable("f"), isSingle: false });
    expect(parser.push('<tool_call>{"name": "f", "arguments": ')).toEqual([]);
    expect(parser.push('{"city": "Par')).toEqual([
      { kind: "call", index: 0, name: "f" },
      { kind: "arguments", index: 0, text: '{"city": "Par' },
    ]);
    expect(parser.push('is"')).toEqual([{ kind: "arguments", index: 0, text: 'is"' }]);
  });

  it("continue from an opening in the prompt", () => {
    const named = parse(hermes, [' {"a": 1}}\n</tool_call>'], { opening: callOpening(hermes, "f") });
    expect(show(named)).toEqual(['0:f({"a": 1})']);
    const any = parse(llama3Json, ['g", "parameters": {}}'], { opening: callOpening(llama3Json, undefined) });
    expect(show(any)).toEqual(["0:g({})"]);
    expect(show(parse(mistralArgs, ["{}"], { opening: callOpening(mistralArgs, "f") }))).toEqual(["0:f({})"]);
    expect(show(parse(mistralArray, ["{}}]"], { opening: callOpening(mistralArray, "f") }))).toEqual(["0:f({})"]);
    expect(show(parse(mistral("[TOOL_CALLS]"), ["f{}"], { opening: "[TOOL_CALLS]" }))).toEqual(["0:f({})"]);
  });

  it("that are forced leave no content if the answer is cut off after a call", () => {
    const cut = ['{"name":"f","arguments":{}}</tool_call>', "\n<tool_c"];
    expect(show(parse(hermes, cut, { opening: "<tool_call>" }))).toEqual(["0:f({})"]);
    expect(show(parse(hermes, [`<tool_call>${cut.join("")}`]))).toEqual(["0:f({})", "<tool_c"]);
    expect(show(parse(hermes, ['{"name":"f'], { opening: "<tool_call>" }))).toEqual(['<tool_call>{"name":"f']);
  });

  it("end the reading after the first call if only one is requested", () => {
    const text = '{"name":"f","parameters":{}};{"name":"g","parameters":{}} more';
    expect(show(parse(llama3Json, [text], { isSingle: true }))).toEqual(["0:f({})"]);
    expect(show(parse(llama3Json, text.split(""), { isSingle: true }))).toEqual(["0:f({})"]);
  });
});

describe("text that is not a call is returned unchanged", () => {
  it.each(TEXTS)("%# %s", (format, text) => {
    expect(parse(format, [text])).toEqual([{ kind: "content", text }]);
    expect(parse(format, text.split(""))).toEqual([{ kind: "content", text }]);
  });
});

/** Pieces that often make calls, nearly make them, or break them. */
const scrap = fc.constantFrom(
  "<tool_call>",
  "</tool_call>",
  "<|python_tag|>",
  "<|tool_call|>",
  "<|/tool_call|>",
  "[TOOL_CALLS]",
  "[ARGS]",
  "[CALL_ID]",
  "[",
  "]",
  "{",
  "}",
  ",",
  ":",
  ";",
  '"',
  "\\",
  "f",
  '"f"',
  '"name":"f"',
  '"name": "x"',
  '"arguments":{}',
  '"parameters": {"a": [1, "é"]}',
  '"id":1',
  " ",
  "\n",
  '{"name":"f","arguments":{"k":"v"}}',
  '{"name": "g", "parameters": {}}',
  "<TOOLCALL>",
  "</TOOLCALL>",
  "<tool_calls>",
  ...deepseekV3.markers,
  ...kimiK2.markers,
  "functions.f:0",
  "<|assistant|>",
  "function",
  "```json",
  "```",
  "1.5e3",
  "null",
  "<",
  "😀",
  "text",
);
const scraps = fc.array(scrap, { maxLength: 25 }).map((pieces) => pieces.join(""));

describe("however the text is cut", () => {
  it.each(FORMATS)("$name gives the same parts, throws nothing and loses nothing", (format) => {
    fc.assert(
      fc.property(
        cutting(fc.oneof(scraps, fc.string({ unit: "binary" }))),
        fc.boolean(),
        ({ whole, pieces }, isSingle) => {
          const parts = parse(format, [whole], { isSingle });
          expect(parse(format, pieces, { isSingle })).toEqual(parts);
          const calls = parts.filter((part) => part.kind === "call");
          expect(calls.map((call) => call.index)).toEqual([...calls.keys()]);
          if (calls.length === 0) expect(parts).toEqual(whole === "" ? [] : [{ kind: "content", text: whole }]);
          const texts = parts.flatMap((part) => (part.kind === "call" ? [] : [part.text]));
          // Each part occurs in the text in order, except arguments that precede their name.
          for (const text of texts) expect(remove(whole, /\s/g)).toContain(remove(text, /\s/g));
        },
      ),
      { numRuns: cases(1000, 3000), seed: 20261121 },
    );
  });

  it("text between calls is returned between them", () => {
    const text = fc.stringMatching(/^[a-z><{}"]{1,8}$/).filter((piece) => !piece.endsWith("<"));
    const item = fc.oneof(text, fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 2 }));
    fc.assert(
      fc.property(
        cutting(fc.array(item, { maxLength: 6 }).map((items) => JSON.stringify(items))),
        ({ whole, pieces }) => {
          const items = JSON.parse(whole) as (string | object)[];
          const written = items.map((piece) =>
            typeof piece === "string"
              ? piece
              : `<tool_call>{"name":"f","arguments":${JSON.stringify(piece)}}</tool_call>`,
          );
          const expected: string[] = [];
          let index = 0;
          for (const [place, piece] of items.entries()) {
            if (typeof piece !== "string") expected.push(`${index++}:f(${JSON.stringify(piece)})`);
            else if (typeof items[place - 1] === "string") expected[expected.length - 1] += piece;
            else expected.push(piece);
          }
          expect(show(parse(hermes, [written.join("")]))).toEqual(expected);
          expect(show(parse(hermes, written.join("").match(new RegExp(`[^]{1,${pieces.length}}`, "g")) ?? []))).toEqual(
            expected,
          );
        },
      ),
      { numRuns: cases(100, 500), seed: 20261121 },
    );
  });

  it.each(FORMATS)("$name returns the arguments exactly as written", (format) => {
    fc.assert(
      fc.property(
        fc.array(fc.dictionary(fc.string(), fc.jsonValue()), { minLength: 1, maxLength: 3 }),
        fc.nat(9),
        (all, width) => {
          const calls = all.map((value) => ({ name: "f", arguments: JSON.stringify(value) }));
          const text = spellCalls(format, calls, 9)!;
          const pieces = text.match(new RegExp(`[^]{1,${width + 1}}`, "g")) ?? [];
          const expected = all.map((value, index) => `${index}:f(${JSON.stringify(value)})`);
          expect(show(parse(format, pieces))).toEqual(expected);
        },
      ),
      { numRuns: cases(100, 500), seed: 20261121 },
    );
  });
});

function remove(text: string, pattern: RegExp): string {
  return text.replaceAll(pattern, "");
}

describe("the format of a template", () => {
  it.each([
    ["hermes", "within <tool_call></tool_call> XML tags"],
    ["mistral", "{{- '[TOOL_CALLS][' }}"],
    ["harmony", "{{- '<|start|>assistant<|channel|>final<|message|>' }}"],
    [
      "llama3_json",
      `Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.`,
    ],
    ["qwen3_coder", "<tool_call>\n<function=name>"],
    ["glm45", "<tool_call>{name}\n<arg_key>{key}</arg_key>"],
    ["seed_oss", "<seed:tool_call>\n<function=name>"],
    ["minimax_m2", "{{- '<minimax:tool_call>' }}\n<invoke name="],
    ["olmo3", "a call wrapped in <function_calls></function_calls> XML tags"],
    ["lfm2", "{{- 'List of tools: <|tool_list_start|>[' -}}"],
    ["lfm2", '{%- set ns.system_prompt = ns.system_prompt + "List of tools: [" -%}'],
    ["gemma4", "{{- '<|tool_call>call:' + function['name'] + '{' -}}"],
    ["deepseek_v3", "{{ '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + name + '\\n```json\\n' + text }}"],
    ["deepseek_v31", "{{ '<｜tool▁call▁begin｜>' + name + '<｜tool▁sep｜>' + text + '<｜tool▁call▁end｜>' }}\n```json"],
    ["glm4", "<|assistant|>{{ message.get('metadata', '') }}\n{{ content }}{% endif %}<|observation|>"],
    ["glm45", "<|observation|><tool_call>{name}\n<arg_key>{key}</arg_key>"],
    ["kimi_k2", "<|tool_calls_section_begin|>{%- for tool_call in message['tool_calls'] -%}"],
    ["kimi_k2", "{{ '<|im_system|>tool_declare<|im_middle|>' -}}"],
    ["nemotron_json", '{{- \'<TOOLCALL>[{{"name": "tool_name1"\' -}}'],
    ["hunyuan_a13b", "{% set content = content + '<tool_calls>' + ns.tool_calls + '</tool_calls>' %}"],
    ["granite", "respond with <|tool_call|> followed by a JSON list"],
    ["phi4_mini_json", "{{ '<|tool_call|>' + (call | tojson) + '<|/tool_call|>' }}"],
    ["phi4_mini_json", "{{ '<|tool|>' + message['tools'] + '<|/tool|>' }}"],
    [undefined, "<function_calls><invoke name="],
    [undefined, "{{ tools }}"],
  ])("%s", (name, source) => {
    expect(toolCallFormat("auto", source)?.name).toBe(name);
  });

  it("is what the flag says", () => {
    expect(toolCallFormat("hermes", "[TOOL_CALLS]")?.name).toBe("hermes");
  });

  it("of Mistral requires ids of nine characters", () => {
    expect(mistralArray.templateCallId?.("call_0123456789abcdef")).toBe("789abcdef");
    expect(mistralArray.templateCallId?.("a-1")).toBe("0000000a1");
    expect(mistralArray.templateCallId?.("abcDEF123")).toBe("abcDEF123");
  });
});
