/** llama.cpp's samplers reach the engine from every dialect that has them; invalid values are refused by name. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import type { SamplingParams } from "../../engine/api/request.js";
import { AsyncTokenizer } from "../../text/async-tokenizer.js";
import type { PromptContext } from "../http/context.js";
import { dryPenaltyOf } from "./llama-samplers.js";

const messages = [{ role: "user", content: "hi" }];
/** Path, the body around the fields, and the prefix of a field's name in errors. */
const ENDPOINTS: readonly (readonly [path: string, bodyOf: (fields: object) => object, prefix: string])[] = [
  ["/v1/chat/completions", (fields) => ({ messages, ...fields }), ""],
  ["/v1/completions", (fields) => ({ prompt: "hi", ...fields }), ""],
  ["/completion", (fields) => ({ prompt: "hi", ...fields }), ""],
  ["/infill", (fields) => ({ input_prefix: "a", input_suffix: "b", ...fields }), ""],
  ["/api/chat", (options) => ({ messages, stream: false, options }), "options."],
  ["/api/generate", (options) => ({ prompt: "hi", stream: false, options }), "options."],
];

const BREAKS = [{ heads: Int32Array.of(33), tail: [] }];
const DRY = { multiplier: 0.8, base: 1.75, allowedLength: 2, window: undefined };
/** The default breakers of bytes and a few special tokens: line feed, colon, quotation mark, asterisk. */
const DEFAULT_BREAKS = [{ heads: Int32Array.of(10, 34, 42, 58), tail: [] }];

const CASES: readonly (readonly [fields: object, sampling: Partial<SamplingParams>])[] = [
  [{ repeat_last_n: 64 }, { penaltyWindow: 64 }],
  [{ repeat_last_n: 0 }, { penaltyWindow: 0 }],
  [{ repeat_last_n: -1 }, { penaltyWindow: undefined }],
  [{ top_n_sigma: 1.5 }, { topNSigma: 1.5 }],
  [{ top_n_sigma: -1 }, { topNSigma: undefined }],
  [{ top_n_sigma: 0 }, { topNSigma: undefined }],
  [{ typical_p: 0.9 }, { typicalP: 0.9 }],
  [{ typical_p: 0 }, { typicalP: 0 }],
  [{ typical_p: 1 }, { typicalP: undefined }],
  [{ xtc_probability: 0.5 }, { xtc: { probability: 0.5, threshold: 0.1 } }],
  [{ xtc_probability: 0.5, xtc_threshold: 0.3 }, { xtc: { probability: 0.5, threshold: 0.3 } }],
  [{ xtc_probability: 0, xtc_threshold: 0.3 }, { xtc: undefined }],
  [{ dynatemp_range: 0.5 }, { dynamicTemperature: { range: 0.5, exponent: 1 } }],
  [{ dynatemp_range: 0.5, dynatemp_exponent: 2 }, { dynamicTemperature: { range: 0.5, exponent: 2 } }],
  [{ dynatemp_range: 0, dynatemp_exponent: 2 }, { dynamicTemperature: undefined }],
  [{ dry_multiplier: 0.8 }, { dry: { ...DRY, breakers: DEFAULT_BREAKS } }],
  [{ dry_multiplier: 0.8, dry_sequence_breakers: ["!"] }, { dry: { ...DRY, breakers: BREAKS } }],
  [{ dry_multiplier: 0.8, dry_sequence_breakers: [] }, { dry: { ...DRY, breakers: [] } }],
  [
    { dry_multiplier: 2, dry_base: 3, dry_allowed_length: 4, dry_penalty_last_n: 5, dry_sequence_breakers: [] },
    { dry: { multiplier: 2, base: 3, allowedLength: 4, window: 5, breakers: [] } },
  ],
  [{ dry_multiplier: 0.8, dry_penalty_last_n: 0 }, { dry: undefined }],
  [{ dry_multiplier: 0, dry_base: 3 }, { dry: undefined }],
  [{}, { penaltyWindow: undefined, topNSigma: undefined, typicalP: undefined, xtc: undefined, dry: undefined }],
];

const WRONG: readonly (readonly [field: string, value: unknown])[] = [
  ["repeat_last_n", -2],
  ["repeat_last_n", 0.5],
  ["top_n_sigma", -2],
  ["top_n_sigma", 101],
  ["typical_p", -0.1],
  ["typical_p", 1.1],
  ["xtc_probability", 1.1],
  ["xtc_threshold", -0.1],
  ["dynatemp_range", 2.1],
  ["dynatemp_range", "1"],
  ["dynatemp_exponent", -1],
  ["dry_multiplier", -1],
  ["dry_base", 0.9],
  ["dry_allowed_length", -1],
  ["dry_penalty_last_n", -2],
  ["dry_sequence_breakers", "a"],
  ["dry_sequence_breakers", [""]],
  ["dry_sequence_breakers", ["a".repeat(41)]],
  ["dry_sequence_breakers", new Array(33).fill("a")],
  ["dry_sequence_breakers", [...new Array(6).fill("a".repeat(40)), "a".repeat(17)]],
];

describe.each(ENDPOINTS)("%s", (path, bodyOf, prefix) => {
  const isInfill = path === "/infill";

  it.skipIf(isInfill).each(CASES)("gives %j to the engine", async (fields, sampling) => {
    const { status, fake } = await ask(path, bodyOf(fields), writing("a"));
    expect([status, fake.engine.submitted[0]?.sampling]).toMatchObject([200, sampling]);
  });

  it.each(WRONG)("refuses %s: %j", async (field, value) => {
    const { status, body } = await ask(path, bodyOf({ [field]: value }));
    const { message, code } = typeof body.error === "string" ? { message: body.error, code: undefined } : body.error;
    expect([status, message]).toEqual([400, expect.stringContaining(`${prefix}${field}`)]);
    expect(code ?? "invalid_parameter").toBe("invalid_parameter");
  });

  it("asks nothing of the samplers where nothing is said", async () => {
    if (isInfill) return;
    const { fake } = await ask(path, bodyOf({}), writing("a"));
    const { penaltyWindow, topNSigma, typicalP, xtc, dynamicTemperature, dry } = fake.engine.submitted[0]!.sampling;
    const all = [penaltyWindow, topNSigma, typicalP, xtc, dynamicTemperature, dry];
    expect(all).toEqual(Array(6).fill(undefined));
  });
});

describe("DRY's breakers for the engine", () => {
  const breakersOf = async (texts: string[], vocabSize = 256) => {
    const asyncTokenizer = new AsyncTokenizer(fakeTokenizer);
    const context = { tokenizer: fakeTokenizer, asyncTokenizer, engine: { info: { vocabSize } } };
    const fields = { dry_multiplier: 1, dry_sequence_breakers: texts };
    return (await dryPenaltyOf(context as unknown as PromptContext, fields))!.breakers;
  };
  const [A, B, C] = [97, 98, 99];

  it("are one for each tail, with each head once", async () => {
    expect(await breakersOf(["c", "a", "ab", "cb", "c"])).toEqual([
      { heads: Int32Array.of(A, C), tail: [] },
      { heads: Int32Array.of(A, C), tail: [B] },
    ]);
  });

  it("lie in memory that is not copied for each choice", async () => {
    for (const { heads } of await breakersOf(["a", "ab"])) {
      expect((heads as Int32Array).buffer).toBeInstanceOf(SharedArrayBuffer);
    }
  });

  it("have no tokens that the model lacks", async () => {
    expect(await breakersOf(["a", "b"], B)).toEqual([{ heads: Int32Array.of(A), tail: [] }]);
    expect(await breakersOf(["ab", "ba"], B)).toEqual([]);
    expect(await breakersOf(["ab"], C)).toEqual([{ heads: Int32Array.of(A), tail: [B] }]);
  });
});

it("mirostat stays refused, since no position would have a choice of its own", async () => {
  for (const [path, bodyOf] of ENDPOINTS.slice(0, 4)) {
    const { status, body } = await ask(path, bodyOf({ mirostat: 2 }));
    expect([path, status, body.error.message]).toEqual([path, 400, expect.stringContaining("mirostat")]);
  }
});

it("/completion says in its settings what held", async () => {
  const fields = {
    repeat_last_n: 64,
    dry_multiplier: 0.8,
    dry_base: 2,
    dry_allowed_length: 3,
    dry_penalty_last_n: 100,
    top_n_sigma: 1.5,
    typical_p: 0.9,
    xtc_probability: 0.5,
    xtc_threshold: 0.2,
    dynatemp_range: 0.5,
    dynatemp_exponent: 2,
  };
  const settingsOf = async (given: object) =>
    ((await ask("/completion", { prompt: "a", ...given }, writing("b"))).body as unknown as Record<string, object>)
      .generation_settings;
  expect(await settingsOf(fields)).toMatchObject(fields);
  expect(await settingsOf({})).toMatchObject({
    repeat_last_n: -1,
    dry_multiplier: 0,
    dry_base: 1.75,
    dry_allowed_length: 2,
    dry_penalty_last_n: -1,
    top_n_sigma: -1,
    typical_p: 1,
    xtc_probability: 0,
    xtc_threshold: 0.1,
    dynatemp_range: 0,
    dynatemp_exponent: 1,
  });
});
