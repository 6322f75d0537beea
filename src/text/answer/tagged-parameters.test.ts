/** Calls with parameters in tags and in Python's notation: their values by the schema, and malformed texts. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { cutting } from "../../../test/helpers/cut-text.js";
import { cases } from "../../../test/helpers/long.js";
import { parsedCalls } from "../../../test/helpers/parsed-calls.js";
import type { AnswerPart } from "./answer-part.js";
import { callOpening, type ToolCallFormat } from "./call-format.js";
import { olmo3 } from "./pythonic.js";
import { qwen3Coder } from "./tagged-parameters.js";
import { CALLS, FORMATS, qwen, qwenCall, TEXTS } from "./test-tagged-calls.js";
import { ToolCallParser, type ToolCallParserOptions } from "./tool-call-parser.js";

const parameters = {
  type: "object",
  $defs: { Colour: { type: "string", enum: ["red", "blue"] } },
  properties: {
    s: { type: "string" },
    n: { type: "integer" },
    b: { type: "boolean" },
    o: { type: "object" },
    l: { type: "array" },
    colour: { $ref: "#/$defs/Colour" },
    maybe: { anyOf: [{ type: "string" }, { type: "null" }] },
    texts: { type: ["string", "array"] },
    again: { $ref: "#/properties/o" },
    tree: { type: "array", items: { $ref: "#" } },
  },
};
const tools: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["f", parameters],
  ["g", undefined],
]);

function parse(format: ToolCallFormat, pieces: readonly string[], options: Partial<ToolCallParserOptions> = {}) {
  return parsedCalls(format, pieces, { tools, isSingle: false, ...options });
}

/** `f({"a": 1})` for calls, text unchanged. */
function show(parts: readonly AnswerPart[]): string[] {
  const shown: string[] = [];
  for (const part of parts) {
    if (part.kind === "call") shown.push(part.name);
    else if (part.kind === "arguments") shown[shown.length - 1] += `(${part.text})`;
    else shown.push(part.text);
  }
  return shown;
}

describe("calls", () => {
  it.each(CALLS)("%s", (_name, format, text, shown) => {
    expect(show(parse(format, [text]))).toEqual(shown);
    expect(show(parse(format, text.split("")))).toEqual(shown);
  });

  it("stream their names first, and texts as they come", () => {
    const parser = new ToolCallParser(qwen3Coder, { tools, isSingle: false });
    expect(parser.push("<tool_call>\n<function=f>\n")).toEqual([]);
    expect(parser.push("<parameter=s>\nhello")).toEqual([
      { kind: "call", index: 0, name: "f" },
      { kind: "arguments", index: 0, text: '{"s": "hello' },
    ]);
    expect(parser.push(" world\n")).toEqual([{ kind: "arguments", index: 0, text: " world" }]);
    expect(parser.push("</parameter>\n</function>")).toEqual([{ kind: "arguments", index: 0, text: '"}' }]);
  });

  it("of olmo that are long stream, too", () => {
    const parser = new ToolCallParser(olmo3, { tools, isSingle: false });
    expect(parser.push("<function_calls>\nf(s='hello")).toEqual([]);
    const long = "x".repeat(10_000);
    expect(show(parser.push(long))).toEqual([`f({"s": "hello${long})`]);
    expect(parser.push("')")).toEqual([{ kind: "arguments", index: 0, text: '"}' }]);
  });

  it("without the outer tag are text where a grammar holds calls to it", () => {
    const text = "<function=f>\n</function>";
    expect(show(parse(qwen3Coder, [text]))).toEqual(["f({})"]);
    expect(parse(qwen3Coder, [text], { isHeld: true })).toEqual([{ kind: "content", text }]);
  });

  it("keep the end of a call within a value where a grammar holds calls to their end tags", () => {
    const value = "a\n</function>\n</tool_call>\n<parameter=n>\n5";
    const text = qwenCall(qwen("s", value));
    expect(show(parse(qwen3Coder, [text], { isHeld: true }))).toEqual([`f({"s": ${JSON.stringify(value)}})`]);
  });

  it.each(FORMATS)("continue from an opening in the prompt: $name", (format) => {
    const { parameters: spelling, afterArguments, end } = format.spelling;
    const { beforeKey, beforeValue, afterValue } = spelling!;
    const text = `${beforeKey}n${beforeValue}5${afterValue}${afterArguments}${end}`;
    for (const isSingle of [true, false]) {
      expect(show(parse(format, [text], { opening: callOpening(format, "f"), isSingle }))).toEqual(['f({"n": 5})']);
    }
    const { beforeArguments } = format.spelling;
    const any = parse(format, [`f${beforeArguments}${text}`], { opening: callOpening(format, undefined) });
    expect(show(any)).toEqual(['f({"n": 5})']);
  });
});

describe("text that is not a call is returned unchanged", () => {
  it.each(TEXTS)("%# %s", (format, text) => {
    expect(parse(format, [text])).toEqual([{ kind: "content", text }]);
    expect(parse(format, text.split(""))).toEqual([{ kind: "content", text }]);
  });
});

const TAGS =
  "<tool_call> </tool_call> <seed:tool_call> </seed:tool_call> <function=f> <function=x> </function> <parameter=s> " +
  "<parameter=o> <parameter= </parameter> <arg_key> </arg_key> <arg_value> </arg_value> <function_calls> " +
  "</function_calls> f( g( ) s= , ' f g s \\ \" { } [ ] 5 é 😀 < </ text";
const scrap = fc.constantFrom(" ", "\n", ...TAGS.split(" "));
const scraps = fc.array(scrap, { maxLength: 30 }).map((pieces) => pieces.join(""));

describe("however the text is cut", () => {
  it.each(FORMATS)("$name gives the same parts and throws nothing", (format) => {
    fc.assert(
      fc.property(
        cutting(fc.oneof(scraps, fc.string({ unit: "binary" }))),
        fc.boolean(),
        ({ whole, pieces }, isSingle) => {
          const text = format.openers[0]! + whole;
          const parts = parse(format, [text], { isSingle });
          expect(parse(format, [format.openers[0]!, ...pieces], { isSingle })).toEqual(parts);
          const calls = parts.filter((part) => part.kind === "call");
          expect(calls.map((call) => call.index)).toEqual([...calls.keys()]);
          if (calls.length === 0) expect(parts).toEqual([{ kind: "content", text }]);
        },
      ),
      { numRuns: cases(300, 3000), seed: 20261130 },
    );
  });

  it.each(FORMATS)("$name returns the values as they were", (format) => {
    const { start, beforeName, beforeArguments, parameters: spelling, afterArguments, end } = format.spelling;
    const { beforeKey, beforeValue, afterValue, between, valueEnd } = spelling!;
    const text = fc.string({ unit: "grapheme" }).filter((each) => !each.includes("</"));
    const values = fc.record({ s: text, n: fc.integer(), o: fc.dictionary(text, fc.jsonValue()) });
    fc.assert(
      fc.property(values, fc.nat(9), (given, width) => {
        const written = Object.entries(given).map(([key, value]) => {
          const isText = typeof value === "string" && valueEnd !== "";
          return `${beforeKey}${key}${beforeValue}${isText ? value : JSON.stringify(value)}${afterValue}`;
        });
        const call = `${start}${beforeName}f${beforeArguments}${written.join(between)}${afterArguments}${end}`;
        const parts = parse(format, call.match(new RegExp(`[^]{1,${width + 1}}`, "g")) ?? []);
        const args = parts.map((part) => (part.kind === "arguments" ? part.text : "")).join("");
        expect(JSON.parse(args)).toEqual(JSON.parse(JSON.stringify(given)));
        expect(parts.map(({ kind }) => kind)).toEqual(["call", "arguments"]);
      }),
      { numRuns: cases(100, 300), seed: 20261130 },
    );
  });

  it.each(FORMATS)("$name takes time in proportion to a hostile text's length", (format) => {
    const [open] = format.openers as [string];
    const startMs = computedMs();
    for (const unit of [" ", "\n", "<", "</parameter>", "</parameter>\n", "f", open, "'", "(", "<parameter=s>"]) {
      const { parameters: spelling } = format.spelling;
      const inValue = `${callOpening(format, "f")}${spelling!.beforeKey}s${spelling!.beforeValue}`;
      for (const begin of [open, inValue]) parse(format, [begin, unit.repeat(cases(20_000, 50_000))]);
    }
    // Reading a text again for each of its characters takes minutes.
    expect(computedMs() - startMs).toBeLessThan(cases(6_000, 20_000));
  }, 300_000);
});
