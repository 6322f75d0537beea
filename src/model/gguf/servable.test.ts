/**
 * The first fault of a GGUF header decides how it is refused: a model of another kind is unsupported, whatever else its
 * header lacks.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { HOSTILE_VALUES } from "../../../test/helpers/hostile-metadata.js";
import {
  type RandomArchitecture,
  type RandomModelOptions,
  writeRandomModel,
} from "../../../test/helpers/random-model.js";
import { MillraceError } from "../../core/errors.js";
import { readGguf } from "../../formats/gguf/read.js";
import { arr, bool, f32, i64, nested, str, u32, type WritableValue, writeGguf } from "../../formats/gguf/write.js";
import { DECODERS } from "../description/architectures.js";
import { NO_ROPE } from "../description/model-description.js";
import { ropeFrequencies } from "../description/rope.js";
import { attentionMixers } from "../description/servable.js";
import { openModel } from "../open-model.js";
import { servableGguf } from "./servable.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-servable-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function header(metadata: Parameters<typeof writeGguf>[1]["metadata"]) {
  const path = join(folder, "model.gguf");
  writeGguf(path, { metadata: { "general.architecture": str("qwen2"), ...metadata }, tensors: [] });
  return readGguf(path);
}

test("experts are unsupported before their other keys are read", () => {
  const gguf = header({ "qwen2.expert_count": u32(8) });
  expect(() => servableGguf(gguf)).toThrow(expect.objectContaining({ code: "architecture_unsupported" }));
});

test("a file without weights says so, whatever its header lacks", () => {
  const gguf = header({ "qwen2.block_count": u32(2) });
  expect(() => servableGguf(gguf)).toThrow(
    expect.objectContaining({ code: "gguf_tensor", hint: expect.stringContaining("no model weights") }),
  );
});

test("bounds and growing queries are of one architecture each, and attention without positions is refused", () => {
  const unsupported = expect.objectContaining({ code: "architecture_unsupported" });
  expect(() => servableGguf(header({ "qwen2.final_logit_softcapping": f32(30) }))).toThrow(unsupported);
  expect(() => servableGguf(header({ "qwen2.attention.temperature_scale": f32(0.1) }))).toThrow(unsupported);
  const granite = { "general.architecture": str("granite"), "granite.rope.scaling.finetuned": bool(false) };
  expect(() => servableGguf(header(granite))).toThrow(unsupported);
});

test("what early files leave out has llama.cpp's defaults", () => {
  const path = join(folder, "random.gguf");
  const read = (architecture: RandomArchitecture, metadata: RandomModelOptions["metadata"] = {}, layers = 2) => {
    writeRandomModel(path, { architecture, seed: 1, width: 64, headDim: 32, layers, contextLength: 8192, metadata });
    return openModel(path).config;
  };
  const windows = (metadata = {}) =>
    attentionMixers(read("gemma2", metadata)).map((mixer) => [mixer.window, mixer.rope]);
  expect(windows()).toEqual([
    [24, 0],
    [0, 0],
  ]);
  expect(windows({ "gemma2.attention.sliding_window": u32(8192) })[0]).toEqual([0, 0]);
  const bytes = readFileSync(path);
  bytes.write("sliding_other!", bytes.indexOf("sliding_window"));
  writeFileSync(path, bytes);
  expect(attentionMixers(openModel(path).config).map((mixer) => mixer.window)).toEqual([4096, 0]);
  expect(read("gemma2", {}, 46).attentionScale).toBe(1 / 4);
  expect(read("olmo2", { "olmo2.rope.freq_base": f32(5e5) }, 4).ropes.map(({ base }) => base)).toEqual([5e5, 5e5]);
  const { magnitude } = ropeFrequencies(read("mistral3").ropes[0]!, undefined);
  expect(magnitude).toBeCloseTo(1, 6);
  const negative = { "mistral3.rope.scaling.yarn_log_multiplier": f32(-10) };
  expect(() => read("mistral3", negative)).toThrow(/yarn_log_multiplier/);
  const zero = { "granite.attention.scale": f32(0), "granite.logit_scale": f32(0), "granite.residual_scale": f32(0) };
  expect(read("granite", zero)).toMatchObject({ attentionScale: 32 ** -0.5, logitScale: 1, residualScale: 1 });
  expect(read("mistral3", { "mistral3.attention.temperature_scale": f32(0) }).queryScaling).toBeUndefined();
  const scaled = {
    "mistral3.attention.temperature_scale": f32(0.5),
    "mistral3.rope.scaling.original_context_length": u32(0),
  };
  expect(() => read("mistral3", scaled)).toThrow(/original_context_length to be an integer in \[1, /);
});

describe("the pattern of windows", () => {
  const path = join(folder, "pattern.gguf");
  const windows = (architecture: RandomArchitecture, pattern?: WritableValue) => {
    const metadata = pattern === undefined ? {} : { [`${architecture}.attention.sliding_window_pattern`]: pattern };
    writeRandomModel(path, { architecture, seed: 1, width: 64, headDim: 32, layers: 8, metadata });
    return attentionMixers(openModel(path).config).map((mixer) => [mixer.window, mixer.rope]);
  };
  const [local, all] = [24, 0];
  const of = (flags: string, rope: number, others = 0) =>
    Array.from(flags, (flag) => (flag === "1" ? [local, rope] : [all, others]));

  test("of exaone4 says which layers alone have a rope; without a window all have one", () => {
    expect(windows("exaone4")).toEqual(of("11101110", 0, NO_ROPE));
    expect(windows("exaone4", u32(3))).toEqual(of("11011011", 0, NO_ROPE));
    const metadata = { "exaone4.attention.sliding_window": u32(0) };
    writeRandomModel(path, { architecture: "exaone4", seed: 1, metadata });
    expect(attentionMixers(openModel(path).config).map(({ rope }) => rope)).toEqual([0, 0, 0, 0]);
  });

  test.each([
    ["gemma2", 0, "10101010"],
    ["gemma3", 1, "11111011"],
    ["olmo2", 1, "11101110"],
  ] as const)("is the file's, of %s too, and else the architecture's", (architecture, rope, ofArchitecture) => {
    expect(windows(architecture)).toEqual(of(ofArchitecture, rope));
    expect(windows(architecture, u32(3))).toEqual(of("11011011", rope));
    expect(windows(architecture, u32(0))).toEqual(of("11111111", rope));
    expect(windows(architecture, u32(1))).toEqual(of("00000000", rope));
    const flags = [1, 0, 0, 1, 1, 0, 1, 0];
    for (const list of [arr("bool", flags.map(Boolean)), arr("u32", flags), arr("i64", flags.map(BigInt))]) {
      expect(windows(architecture, list)).toEqual(of("10011010", rope));
    }
  });

  test.each([
    [arr("bool", [true, false]), /sliding_window_pattern to be a number or a list of 8, got 2/],
    [arr("u32", [1, 0, 2, 0, 1, 0, 1, 0]), /to be a list of booleans, got another value at 2/],
    [arr("string", Array(8).fill("1")), /to be a list of booleans, got another value at 0/],
    [nested(Array(8).fill(arr("u32", [1, 2]))), /to be a list of booleans, got another value at 0/],
    [i64(-2n), /sliding_window_pattern to be an integer in \[1, 1024\], got -2/],
    [str("2"), /expected .*sliding_window_pattern/],
  ])("is refused where it is neither (%#)", (pattern, message) => {
    const refusal = expect.objectContaining({ code: "gguf_metadata", message: expect.stringMatching(message) });
    expect(() => windows("gemma3", pattern)).toThrow(refusal);
  });
});

test.each(
  DECODERS.filter((name) => name !== "mistral"),
)("a hostile value under any key of %s is refused, or within bounds", (architecture) => {
  const path = join(folder, `${architecture}.gguf`);
  const write = (metadata: RandomModelOptions["metadata"] = {}) =>
    writeRandomModel(path, { architecture, seed: 2, width: 32, ff: 32, vocab: 300, metadata });
  write();
  const keys = [...readGguf(path).metadata.keys()].filter((key) => key.startsWith(`${architecture}.`));
  let numRefused = 0;
  for (const key of keys) {
    for (const value of HOSTILE_VALUES) {
      write({ [key]: value });
      try {
        const config = openModel(path).config;
        const { layers, ropes, width, contextLength, ...model } = config;
        for (const rope of ropes) ropeFrequencies(rope, undefined);
        for (const mixer of attentionMixers(config)) expect(mixer.numHeads % mixer.numKvHeads).toBe(0);
        for (const size of [width, contextLength]) expect(size).toSatisfy(Number.isSafeInteger);
        const { attentionScale, residualScale, logitScale, attentionCap, logitCap, queryScaling } = model;
        for (const factor of [attentionScale, residualScale, logitScale]) expect(factor).toBeGreaterThan(0);
        for (const bound of [attentionCap, logitCap, queryScaling?.beta ?? 0]) expect(bound).toBeGreaterThanOrEqual(0);
      } catch (thrown) {
        if (!(thrown instanceof MillraceError)) throw thrown;
        expect(thrown.code).toMatch(/^(gguf_\w+|architecture_unsupported)$/);
        numRefused++;
      }
    }
  }
  expect(numRefused).toBeGreaterThan(3 * keys.length);
});

describe("a reranker of yes and no", () => {
  const read = (numLabels: number, metadata: Record<string, WritableValue> = {}) => {
    const path = join(folder, "reranker.gguf");
    writeRandomModel(path, { architecture: "qwen3", seed: 1, width: 32, headDim: 16, poolingType: 4, metadata });
    const gguf = readGguf(path);
    const norm = gguf.tensors.get("output_norm.weight")!;
    const head = { ...norm, name: "cls.output.weight", shape: [32, numLabels] };
    return servableGguf(numLabels === 0 ? gguf : { ...gguf, tensors: new Map([...gguf.tensors, [head.name, head]]) });
  };
  const labels = (...texts: string[]) => ({ "qwen3.classifier.output_labels": arr("string", texts) });

  test.each([
    [labels("yes", "no"), [1, 0]],
    [labels("no", "yes"), [0, 1]],
    [{}, [1, 0]],
  ])("has the rows that its labels name: %#", (metadata, rows) => {
    expect(read(2, metadata).head).toMatchObject({ scoring: "softmax", layers: [{ rows }] });
  });

  test.each([
    [labels("positive", "negative"), "positive, negative"],
    [labels("yes"), "yes"],
    [labels("yes", "yes"), "yes, yes"],
    [labels(), "none"],
  ])("with other labels is refused: %#", (metadata, got) => {
    expect(() => read(2, metadata)).toThrow(`output_labels to be yes and no, got ${got}`);
  });

  test("without its head is refused", () => {
    expect(() => read(0)).toThrow(expect.objectContaining({ code: "gguf_tensor" }));
  });
});
