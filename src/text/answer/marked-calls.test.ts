/** Calls between markers in DeepSeek's and Kimi's spelling, also with parts omitted. */
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { cases } from "../../../test/helpers/long.js";
import { parsedCalls } from "../../../test/helpers/parsed-calls.js";
import { callOpening, spellCalls, type ToolCallFormat } from "./call-format.js";
import { deepseekV3, deepseekV31, glm4, kimiK2 } from "./marked-calls.js";
import type { ToolCallParserOptions } from "./tool-call-parser.js";

const tools = new Map(["f", "g"].map((name) => [name, undefined]));

/** Calls as `NAME ARGUMENTS`, content unchanged; the text is read both by characters and whole. */
function read(format: ToolCallFormat, text: string, options: Partial<ToolCallParserOptions> = {}): string[] {
  const [whole, cut] = [[text], text.split("")].map((pieces) => {
    const shown: string[] = [];
    for (const part of parsedCalls(format, pieces, { tools, isSingle: false, ...options })) {
      if (part.kind === "call") shown.push(part.name);
      else if (part.kind === "arguments") shown[shown.length - 1] += ` ${part.text}`;
      else shown.push(part.text);
    }
    return shown;
  });
  expect(cut).toEqual(whole);
  return whole!;
}

const V3 = (...calls: readonly string[]) =>
  `<｜tool▁calls▁begin｜>${calls.map((call) => `<｜tool▁call▁begin｜>${call}<｜tool▁call▁end｜>`).join("\n")}<｜tool▁calls▁end｜>`;
const KIMI = (...calls: readonly string[]) =>
  `<|tool_calls_section_begin|>${calls.map((call) => `<|tool_call_begin|>${call}<|tool_call_end|>`).join("")}<|tool_calls_section_end|>`;

const CALLS: readonly (readonly [name: string, format: ToolCallFormat, text: string, shown: readonly string[]])[] = [
  ["V3's", deepseekV3, V3('function<｜tool▁sep｜>f\n```json\n{"a": "```"}\n```'), ['f {"a": "```"}']],
  [
    "V3's, behind text",
    deepseekV3,
    `I look.\n\n${V3("function<｜tool▁sep｜>f\n```json\n{}\n```", 'function<｜tool▁sep｜>g\n```json\n{"b": 1}\n```')}`,
    ["I look.", "f {}", 'g {"b": 1}'],
  ],
  ["V3's without a block", deepseekV3, V3('function<｜tool▁sep｜>f\n{"a": 1}'), ['f {"a": 1}']],
  [
    "V3.1's",
    deepseekV31,
    `ok${V3('f<｜tool▁sep｜>{"a": "<｜tool▁call▁end｜>"}', "g<｜tool▁sep｜>{}")}`,
    ["ok", 'f {"a": "<｜tool▁call▁end｜>"}', "g {}"],
  ],
  ["V3's form under V3.1", deepseekV31, V3("function<｜tool▁sep｜>f\n```json\n{}\n```"), ["f {}"]],
  ["V3.1's form under V3", deepseekV3, V3("f<｜tool▁sep｜>{}"), ["f {}"]],
  ["without their section", deepseekV31, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>", ["f {}"]],
  ["without ends", deepseekV31, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}", ["f {}"]],
  [
    "without ends between them",
    deepseekV31,
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}",
    ["f {}", "g {}"],
  ],
  ["Kimi's", kimiK2, `ok ${KIMI('functions.f:0<|tool_call_argument_begin|>{"a": 1}')}`, ["ok", 'f {"a": 1}']],
  [
    "several of Kimi's",
    kimiK2,
    KIMI("functions.f:4<|tool_call_argument_begin|>{}", "functions.g:15 <|tool_call_argument_begin|> {}"),
    ["f {}", "g {}"],
  ],
  [
    "Kimi's with other ids",
    kimiK2,
    KIMI("f:0<|tool_call_argument_begin|>{}", "functions.g<|tool_call_argument_begin|>{}"),
    ["f {}", "g {}"],
  ],
  [
    "Kimi's without their section",
    kimiK2,
    "ok<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    ["ok", "f {}"],
  ],
  [
    "behind an opener too many",
    kimiK2,
    "<|tool_call_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    ["<|tool_call_begin|>", "f {}"],
  ],
  ["before text", kimiK2, `${KIMI("functions.f:0<|tool_call_argument_begin|>{}")} and more`, ["f {}", "and more"]],
  [
    "in two sections, with an end too many",
    kimiK2,
    `${KIMI("functions.f:0<|tool_call_argument_begin|>{}")}<|tool_calls_section_end|>${KIMI("functions.g:1<|tool_call_argument_begin|>{}")}`,
    ["f {}", "g {}"],
  ],
  [
    "cut off",
    kimiK2,
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": [1, ',
    ['f {"a": [1, '],
  ],
  ["GLM's with a blank behind names", glm4, 'f \n{"a": 1}<|assistant|>g \n{}', ['f {"a": 1}', "g {}"]],
  [
    "that stop being JSON",
    deepseekV31,
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{oops}<｜tool▁call▁end｜>",
    ["f {", "oops}<｜tool▁call▁end｜>"],
  ],
];

const TEXTS: readonly (readonly [format: ToolCallFormat, text: string])[] = [
  [deepseekV3, V3("function<｜tool▁sep｜>unknown\n```json\n{}\n```")],
  [deepseekV3, V3("function<｜tool▁sep｜>f")],
  [deepseekV3, V3()],
  [deepseekV31, V3("f{}")],
  [deepseekV31, V3("f<｜tool▁sep｜>g<｜tool▁sep｜>{}")],
  [deepseekV31, V3('f<｜tool▁sep｜>"{}"')],
  [kimiK2, KIMI("functions.f:0<|tool_call_argument_begin|>x{}")],
  [kimiK2, KIMI("call_1<|tool_call_argument_begin|>{}")],
  [glm4, "f\nis a function"],
  [glm4, "f {}"],
  [glm4, "f  \n{}"],
  [glm4, "ff\n{}"],
  [glm4, "text f\n{}"],
  [glm4, "\ntext\nf\n{}"],
  [glm4, "<|assistant|>\nf\n{}"],
  [glm4, "h\n{}"],
  [kimiK2, "<|tool_calls_section_begin|> {}"],
  [kimiK2, "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"],
];

describe("calls between markers", () => {
  it.each(CALLS)("%s", (_name, format, text, shown) => {
    expect(read(format, text)).toEqual(shown);
  });

  it.each(TEXTS)("that are none are text: %# %s", (format, text) => {
    expect(read(format, text)).toEqual([text]);
  });

  it("stand in their section where a grammar holds them", () => {
    const bare = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>";
    expect(read(kimiK2, bare, { isHeld: true })).toEqual([bare]);
    expect(read(kimiK2, KIMI("functions.f:0<|tool_call_argument_begin|>{}"), { isHeld: true })).toEqual(["f {}"]);
  });

  it("of GLM begin the answer where a grammar holds them, and are text behind a line break", () => {
    expect(read(glm4, "f\n{}<|assistant|>g\n{}", { isHeld: true })).toEqual(["f {}", "g {}"]);
    expect(read(glm4, "\nf\n{}", { isHeld: true })).toEqual(["\nf\n{}"]);
    expect(read(glm4, "\nso<|assistant|>f\n{}", { isHeld: true })).toEqual(["\nso", "f {}"]);
    expect(read(glm4, "{}", { isHeld: true, opening: callOpening(glm4, "f"), isSingle: true })).toEqual(["f {}"]);
  });

  it("go on from a prompt that ends within the first, and end there if one is asked for", () => {
    for (const [format, rest] of [
      [deepseekV3, "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"],
      [deepseekV31, "{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"],
      [kimiK2, "{}<|tool_call_end|><|tool_calls_section_end|>"],
    ] as const) {
      expect(read(format, rest, { opening: callOpening(format, "f", 3), isSingle: true })).toEqual(["f {}"]);
    }
    expect(callOpening(deepseekV3, "f")).toBe(
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
    );
    expect(callOpening(deepseekV31, undefined)).toBe("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>");
    expect(callOpening(kimiK2, "f", 3)).toBe(
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>",
    );
    expect(callOpening(kimiK2, undefined, 3)).toBe("<|tool_calls_section_begin|><|tool_call_begin|>functions.");
  });

  it("are spelled as the models write them", () => {
    const calls = ["f", "g"].map((name) => ({ name, arguments: '{"a":1}' }));
    const kimi = ["functions.f:7", "functions.g:8"].map((id) => `${id}<|tool_call_argument_begin|>{"a":1}`);
    expect(spellCalls(kimiK2, calls, 7)).toBe(KIMI(...kimi));
    const blocks = ["f", "g"].map((name) => `function<｜tool▁sep｜>${name}\n\`\`\`json\n{"a":1}\n\`\`\``);
    expect(spellCalls(deepseekV3, calls, 0)).toBe(V3(...blocks));
  });

  it("of Kimi have ids of their function and number", () => {
    expect(kimiK2.templateCallId?.("call_x", "f", 2)).toBe("functions.f:2");
    expect(kimiK2.templateCallId?.("call_x")).toBe("call_x");
  });

  it.each([deepseekV3, kimiK2, glm4])("of $name take time in proportion to a hostile text's length", (format) => {
    const [section = "", , call = "f\n", , separator = "\n"] = format.markers;
    const begun = callOpening(format, "f");
    const startMs = computedMs();
    for (const unit of [" ", "<", "{", '{"a":', section, call, separator, begun, `${call}{`]) {
      for (const begin of ["", section, begun, `${begun}{"`, `${begun}{}`]) {
        read(format, begin + unit.repeat(cases(50_000, 200_000) / unit.length));
      }
    }
    // Reading a text again for each of its characters takes minutes.
    expect(computedMs() - startMs).toBeLessThan(cases(15_000, 60_000));
  }, 300_000);
});
