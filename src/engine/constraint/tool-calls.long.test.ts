/**
 * Random functions in every format: whatever calls a random model writes under their grammars at temperature 1 are read
 * back whole, and are valid by a validator that is not ours.
 */
import Ajv2020 from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { randomParameters } from "../../../test/helpers/random-schema.js";
import { RandomWriter } from "../../../test/helpers/random-writer.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { type AnswerPart, appendPart } from "../../text/answer/answer-part.js";
import { AnswerReader } from "../../text/answer/answer-reader.js";
import { callOpening, type ToolCallFormat } from "../../text/answer/call-format.js";
import {
  callOrFormGrammar,
  channelGrammar,
  forcedCallGrammar,
  freeCallGrammar,
  type GrammarFunction,
  type TextGrammarOptions,
} from "../../text/answer/call-grammar.js";
import { gemma4 } from "../../text/answer/gemma.js";
import { HarmonyReader, harmony } from "../../text/answer/harmony.js";
import { hermes } from "../../text/answer/hermes.js";
import { granite, hunyuan, nemotron, phi4Mini } from "../../text/answer/json-list.js";
import { llama3Json } from "../../text/answer/llama3-json.js";
import { deepseekV3, deepseekV31, glm4, kimiK2 } from "../../text/answer/marked-calls.js";
import { mistral } from "../../text/answer/mistral.js";
import { lfm2, olmo3 } from "../../text/answer/pythonic.js";
import { markerTexts, THINK } from "../../text/answer/reasoning.js";
import { glm, minimaxM2, qwen3Coder, seedOss } from "../../text/answer/tagged-parameters.js";

/** "form": the answer is a call or an object that keeps to FORM. */
type Call = "named" | "any" | "free" | "form";

/** Objects that could be told from a call by their first property only. */
const FORM = {
  type: "object",
  properties: { name: { enum: ["x", "get"] }, note: { type: "string", maxLength: 20 } },
  required: ["name", "note"],
  additionalProperties: false,
};

interface Task extends TextGrammarOptions {
  readonly format: ToolCallFormat;
  readonly call: Call;
  readonly grammar: string;
}

const NAMES = ["f", "get_weather", "get-weather2", "a_b"];
const TASKS_PER_KIND = 8;

function randomTask(format: ToolCallFormat, areSpecial: boolean, call: Call, rng: TestRng): Task {
  const numFunctions = call === "named" ? 1 : rng.int(1, 3);
  const functions = NAMES.slice(0, numFunctions).map((name, index): GrammarFunction => {
    const isBare = rng.chance(0.1);
    const parameters = isBare ? undefined : keptParameters(format, rng);
    return { name, parameters, isStrict: true, param: `tools[${index}]` };
  });
  const specialTexts = areSpecial ? [...format.markers, ...markerTexts(THINK)] : [];
  const isSingle = call === "named" || rng.chance(0.3);
  const isForced = call === "named" || call === "any";
  const start = isForced ? undefined : rng.pick([undefined, "possible", "inside"] as const);
  const reasoning = start && { ...THINK, start };
  const options = { format, functions, isSingle, specialTexts, reasoning };
  return { ...options, call, grammar: grammarOf(options, call) };
}

/** A schema that the format can keep: values that are text keep no patterns. */
function keptParameters(format: ToolCallFormat, rng: TestRng): object {
  for (;;) {
    const parameters = randomParameters(rng);
    const functions = [{ name: "f", parameters, isStrict: true, param: "tools" }];
    try {
      forcedCallGrammar({ format, functions, isSingle: true, specialTexts: [] }, true);
      return parameters;
    } catch (thrown) {
      if (!String(thrown).includes("as this model writes them as free text")) throw thrown;
    }
  }
}

function grammarOf(options: TextGrammarOptions, call: Call): string {
  if (call === "form") return callOrFormGrammar(options, { kind: "schema", schema: FORM, param: "form" });
  return call === "free" ? freeCallGrammar(options) : forcedCallGrammar(options, call === "named");
}

function read({ format, functions, isSingle, call, reasoning }: Task, text: string): AnswerPart[] {
  const opening =
    call === "free" || call === "form" ? "" : callOpening(format, call === "named" ? functions[0]!.name : undefined);
  const reader = new AnswerReader({
    reasoning: reasoning && { markers: reasoning, startsInside: reasoning.start === "inside" },
    toolCalls: {
      format,
      tools: new Map(functions.map(({ name, parameters }) => [name, parameters])),
      isSingle,
      isHeld: true,
      opening,
    },
  });
  const parts: AnswerPart[] = [];
  for (const part of [...reader.push(text), ...reader.flush()]) appendPart(parts, part);
  return parts;
}

/** The calls of an answer as [name, arguments]; what else it says. */
function show(parts: readonly AnswerPart[]) {
  const calls: [name: string, args: string][] = [];
  let rest = "";
  for (const part of parts) {
    if (part.kind === "call") calls.push([part.name, ""]);
    else if (part.kind === "arguments") calls.at(-1)![1] += part.text;
    else if (part.kind === "content") rest += part.text;
  }
  return { calls, rest };
}

const FORMATS: readonly (readonly [name: string, format: ToolCallFormat])[] = [
  ["hermes", hermes],
  ["llama3_json", llama3Json],
  ["mistral's array", mistral("[TOOL_CALLS][")],
  ["mistral's names", mistral("[TOOL_CALLS]")],
  ["mistral's args", mistral("[TOOL_CALLS] [ARGS]")],
  ["granite", granite],
  ["phi4_mini_json", phi4Mini("<|tool|>")],
  ["nemotron_json", nemotron],
  ["hunyuan_a13b", hunyuan],
  ["deepseek_v3", deepseekV3],
  ["deepseek_v31", deepseekV31],
  ["kimi_k2", kimiK2],
  ["glm4", glm4],
  ["olmo3", olmo3],
  ["lfm2", lfm2],
  ["gemma4", gemma4],
  ["glm45", glm("</arg_key>\n<arg_value>")],
  ["glm45 on one line", glm("</arg_key><arg_value>")],
  ["qwen3_coder", qwen3Coder],
  ["seed_oss", seedOss],
  ["minimax_m2", minimaxM2],
];

test.each(
  FORMATS.flatMap(([name, format]) => [true, false].map((areSpecial) => ({ name, format, areSpecial }))),
)("calls in the form of $name are valid (special tokens: $areSpecial)", async ({ format, areSpecial }) => {
  const texts = [...format.markers, ...markerTexts(THINK)];
  const toOpeners = Object.fromEntries(texts.map((text) => [Buffer.from(text).toString("latin1"), 4]));
  const biases = { '"': 5, "}": 5, "]": 5, "{": 3, ...toOpeners };
  await using writer = await RandomWriter.create({ seed: 5, maxTokens: 500, markers: { texts, areSpecial }, biases });
  const rng = new TestRng(12);
  const kinds: readonly Call[] = ["named", "any", "free", "form"];
  const tasks = kinds.flatMap((call) =>
    Array.from({ length: TASKS_PER_KIND }, () => randomTask(format, areSpecial, call, rng)),
  );
  const ajv = new Ajv2020.default({ strict: false });
  const numCalls = { named: 0, any: 0, free: 0, form: 0 };
  let numInForm = 0;
  let numCut = 0;
  (await writer.write(tasks.map(({ grammar }, seed) => ({ grammar, seed })))).forEach(({ text, isCut }, i) => {
    if (isCut) {
      numCut++;
      return;
    }
    const task = tasks[i]!;
    const { calls, rest } = show(read(task, text));
    numCalls[task.call] += calls.length;
    if (task.call === "form") {
      if (calls.length > 0) expect(rest.trim(), text).toBe("");
      else expect(ajv.validate(FORM, JSON.parse(rest)), text).toBe(true);
      if (calls.length === 0) numInForm++;
    } else if (task.call !== "free") {
      expect(calls.length).toBeGreaterThan(0);
      if (!task.isSingle) expect(rest, text).toBe("");
    }
    if (task.isSingle) expect(calls.length).toBeLessThanOrEqual(1);
    for (const [name, args] of calls) {
      const called = task.functions.find((each) => each.name === name);
      const value: unknown = JSON.parse(args);
      expect(value).toBeTypeOf("object");
      expect(ajv.validate(called?.parameters ?? { maxProperties: 0 }, value), `${name} ${args}`).toBe(true);
    }
  });
  console.log(`calls: ${JSON.stringify({ format: format.name, areSpecial, numCalls, numInForm, numCut })}`);
  for (const call of kinds) expect(numCalls[call]).toBeGreaterThan(TASKS_PER_KIND / 5);
}, 120_000);

test("Harmony's calls and forms are valid, after thoughts and without", async () => {
  const texts = harmony.markers;
  const biases = { '"': 5, "}": 5, "{": 3, ...Object.fromEntries(texts.map((text) => [text, 4])) };
  await using writer = await RandomWriter.create({
    seed: 6,
    maxTokens: 500,
    markers: { texts, areSpecial: true },
    biases,
  });
  const rng = new TestRng(13);
  const tasks = (["named", "any", "free", "form"] as const).flatMap((call) =>
    Array.from({ length: 12 }, () => {
      const functions = NAMES.slice(0, call === "named" ? 1 : rng.int(1, 3)).map(
        (name, i): GrammarFunction => ({
          name,
          parameters: randomParameters(rng),
          isStrict: true,
          param: `tools[${i}]`,
        }),
      );
      const format = { spelling: harmony.spelling };
      const options = { format, functions, isSingle: rng.chance(0.5), specialTexts: texts };
      const form = call === "form" ? ({ kind: "schema", schema: FORM, param: "form" } as const) : undefined;
      const isForced = call === "named" || call === "any";
      const grammar = isForced ? forcedCallGrammar(options, call === "named") : channelGrammar(options, form);
      const opening = isForced ? callOpening(harmony, call === "named" ? functions[0]!.name : undefined) : "";
      return { call, functions, isSingle: options.isSingle, grammar, opening };
    }),
  );
  const ajv = new Ajv2020.default({ strict: false });
  const numSeen = { named: 0, any: 0, free: 0, form: 0, content: 0, reasoning: 0 };
  (await writer.write(tasks.map(({ grammar }, seed) => ({ grammar, seed })))).forEach(({ text, isCut }, i) => {
    if (isCut) return;
    const { call, functions, isSingle, opening } = tasks[i]!;
    const toolNames = new Set(functions.map(({ name }) => name));
    const reader = new HarmonyReader({ toolNames, isSingle, hasReasoning: true, opening });
    const parts: AnswerPart[] = [];
    for (const part of [...reader.push(text), ...reader.flush()]) appendPart(parts, part);
    const { calls } = show(parts);
    numSeen[call] += calls.length;
    numSeen.reasoning += parts.some(({ kind }) => kind === "reasoning") ? 1 : 0;
    if (calls.length === 0) {
      expect(["free", "form"]).toContain(call);
      const { text: last } = parts.at(-1) as { text: string };
      // Its last paragraph, where remarks come before it.
      if (call === "form")
        expect(ajv.validate(FORM, JSON.parse(last.slice(last.lastIndexOf("\n\n{") + 1))), text).toBe(true);
      numSeen.content++;
    }
    for (const [name, args] of calls) {
      const { parameters } = functions.find((each) => each.name === name)!;
      expect(ajv.validate(parameters as object, JSON.parse(args)), `${name} ${args}`).toBe(true);
    }
  });
  console.log(`harmony: ${JSON.stringify(numSeen)}`);
  for (const count of Object.values(numSeen)) expect(count).toBeGreaterThan(2);
}, 120_000);
