/** Gemma 4's calls: their notation becomes JSON wherever the text is cut, and malformed calls become text. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutting } from "../../../test/helpers/cut-text.js";
import { cases } from "../../../test/helpers/long.js";
import { parsedCalls } from "../../../test/helpers/parsed-calls.js";
import type { AnswerPart } from "./answer-part.js";
import { callOpening } from "./call-format.js";
import { gemma4 } from "./gemma.js";
import type { ToolCallParserOptions } from "./tool-call-parser.js";

const tools: ReadonlyMap<string, unknown> = new Map([
  ["f", undefined],
  ["get_weather", undefined],
]);
const parse = (pieces: readonly string[], options: Partial<ToolCallParserOptions> = {}) =>
  parsedCalls(gemma4, pieces, { tools, isSingle: false, ...options });

/** [name, arguments] for calls, content unchanged. */
function show(parts: readonly AnswerPart[]): unknown[] {
  const shown: unknown[] = [];
  for (const part of parts) {
    if (part.kind === "call") shown.push([part.name, ""]);
    else if (part.kind === "arguments") (shown.at(-1) as [string, string])[1] += part.text;
    else shown.push(part.text);
  }
  return shown;
}

/** Arguments as the model's template writes them. */
function spelled(value: unknown): string {
  if (typeof value === "string") return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(spelled).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${key}:${spelled(inner)}`)
    .join(",")}}`;
}
const call = (name: string, args: object) => `<|tool_call>call:${name}${spelled(args)}<tool_call|>`;

describe("calls", () => {
  const key = fc.stringMatching(/^[A-Za-z_][\w-]{0,8}$/);
  const text = fc.string({ unit: "grapheme" }).filter((each) => !`${each}<`.includes("<|"));
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      text,
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => (Object.is(each, -0) ? 0 : each)),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(key, tie("value"), { maxKeys: 4, noNullPrototype: true }),
    ),
  }));
  const args = fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true });

  it("are JSON however the text is cut", () => {
    fc.assert(
      fc.property(
        fc.tuple(args, args).chain((given) =>
          cutting(fc.constant(`Let me see.${call("f", given[0])}${call("get_weather", given[1])}`)).map((cut) => ({
            cut,
            given,
          })),
        ),
        ({ cut, given }) => {
          const shown = show(parse(cut.pieces));
          expect(shown.map((each) => (Array.isArray(each) ? [each[0], JSON.parse(each[1])] : each))).toEqual([
            "Let me see.",
            ["f", given[0]],
            ["get_weather", given[1]],
          ]);
        },
      ),
      { numRuns: cases(300, 5000) },
    );
  });

  it.each([
    ["texts hold brackets, quotes and parts of their mark", { s: 'a}"],<tool_call|> <| <|" "|> b\n\\' }],
    ["keys may have signs", { "user-id": 7, $ref: "x", größe: 1.5 }],
  ])("%s", (_name, given) => {
    const [[name, json]] = show(parse([call("f", given)])) as [[string, string]];
    expect([name, JSON.parse(json)]).toEqual(["f", given]);
  });

  it.each([
    ["JSON's own form", 'f{"a": "x\\u00e9\\n", "b": {"c": [1, "d"]}}', { a: "xé\n", b: { c: [1, "d"] } }],
    ["white space", " f {\n a : 1 ,\n b : [ ] }", { a: 1, b: [] }],
    ["words without quotes", "f{city:New York,n:1_000,t:True}", { city: "New York", n: "1_000", t: "True" }],
    ["no arguments", "f{}", {}],
  ])("%s", (_name, written, wanted) => {
    const [[name, json]] = show(parse([`<|tool_call>call:${written}<tool_call|>`])) as [[string, string]];
    expect([name, JSON.parse(json)]).toEqual(["f", wanted]);
  });

  it("go on from an opening in the prompt", () => {
    const opening = callOpening(gemma4, "f");
    expect(show(parse(["n:5}<tool_call|>"], { opening }))).toEqual([["f", '{"n": 5}']]);
  });
});

describe("other text", () => {
  it.each([
    "<|tool_call>call:unknown{}<tool_call|>",
    "<|tool_call>f{}<tool_call|>",
    "<|tool_call>call:f",
    `<|tool_call>call:${"f".repeat(300)}{}`,
    "<|tool_call>call:f()<tool_call|>",
  ])("%s is content", (text) => {
    expect(show(parse([text]))).toEqual([text]);
  });

  it.each([
    ["f{a:}<tool_call|>", '{"a": '],
    ["f{a 1}<tool_call|>", "{"],
    ["f{a:1;b:[2}", '{"a": '],
    ["f{a:[1}]<tool_call|>", '{"a": ['],
    ['f{"\\x":1}', '{"'],
    [`f{a:${"1".repeat(600)}`, '{"a": '],
  ])("%s keeps the arguments so far", (written, json) => {
    const [first, ...rest] = show(parse([`<|tool_call>call:${written}`]));
    expect(first).toEqual(["f", json]);
    expect(rest.every((each) => typeof each === "string")).toBe(true);
  });
});
