/** What a config.json of LFM2 or LFM3 says of its layers, its defaults, and numbers that no model has. */
import { describe, expect, it } from "vitest";
import { JsonObject } from "../../formats/files/json.js";
import { kvBytesPerToken, stateBytes } from "../description/sizes.js";
import { servableConfig } from "./servable.js";

/** LFM2-1.2B, as its config.json has it. */
const BASE = {
  model_type: "lfm2",
  hidden_size: 2048,
  block_ff_dim: 12_288,
  intermediate_size: 1,
  num_hidden_layers: 16,
  full_attn_idxs: [2, 5, 8, 10, 12, 14],
  max_position_embeddings: 128_000,
};
const modelOf = (changes: object) =>
  servableConfig(new JsonObject({ ...BASE, ...changes }, "config.json", ""), "m", {
    numEmbeddings: 65_536,
    hasOutput: false,
  }).model;
const widthOf = (changes: object) => modelOf(changes).layers[0]!.feedForward.width;

describe("a config.json of LFM2", () => {
  it("has the class's defaults where it is silent", () => {
    const { layers, ropes, architecture, rmsEps, isTied } = modelOf({});
    expect({ architecture, isTied, rmsEps }).toEqual({ architecture: "lfm2", isTied: true, rmsEps: 1e-5 });
    expect(layers.flatMap(({ mixer }, index) => (mixer.kind === "attention" ? [index] : []))).toEqual(
      BASE.full_attn_idxs,
    );
    expect(layers[0]!.mixer).toEqual({ kind: "convolution", width: 2048, numTaps: 3 });
    expect(layers[2]!.mixer).toMatchObject({ numHeads: 32, numKvHeads: 8, headDim: 64 });
    expect(ropes).toMatchObject([{ dim: 64, base: 1_000_000 }]);
  });

  it("says how much a sequence keeps", () => {
    expect(stateBytes(modelOf({}))).toBe(10 * 2 * 2048 * 4);
    expect(kvBytesPerToken(modelOf({}), "f16")).toBe(6 * 2 * 8 * 64 * 2);
  });

  it("has feed-forward parts of two thirds of the stated width, times a factor, rounded up", () => {
    expect(widthOf({})).toBe(8192);
    expect(widthOf({ block_ff_dim: null, intermediate_size: 6656 })).toBe(4608);
    expect(widthOf({ block_ffn_dim_multiplier: 1.1, block_multiple_of: 100 })).toBe(9100);
    expect(widthOf({ block_ffn_dim_multiplier: null, block_multiple_of: 100 })).toBe(8192);
    expect(widthOf({ block_auto_adjust_ff_dim: false })).toBe(12_288);
    expect(() => widthOf({ block_ffn_dim_multiplier: 1e9 })).toThrow(
      "expected a feed-forward width in [1, 1048576] of",
    );
    expect(() => widthOf({ block_multiple_of: 0 })).toThrow("block_multiple_of to be an integer in");
  });

  it("names each layer's kind", () => {
    const kinds = (layer_types: readonly string[]) =>
      modelOf({ num_hidden_layers: 2, layer_types }).layers.map(({ mixer }) => mixer.kind);
    expect(kinds(["full_attention", "conv"])).toEqual(["attention", "convolution"]);
    expect(() => kinds(["full_attention", "linear_attention"])).toThrow("conv or full_attention, got linear_attention");
    expect(() => kinds(["conv"])).toThrow("to name 2 layers conv or full_attention, got 1");
    expect(() => kinds(["conv", "conv"])).toThrow("expected at least one layer with attention, got none");
  });

  it("is refused where it would be computed otherwise", () => {
    expect(() => modelOf({ conv_bias: true })).toThrow("conv_bias to be false, got true");
    expect(() => modelOf({ conv_L_cache: 65 })).toThrow("conv_L_cache to be an integer in [1, 64], got 65");
    const moe = { model_type: "lfm2_moe", num_hidden_layers: 4, full_attn_idxs: [1] };
    expect(modelOf(moe).layers.map(({ feedForward }) => feedForward.kind)).toEqual([
      "dense",
      "dense",
      "experts",
      "experts",
    ]);
    expect(() => modelOf({ ...moe, use_expert_bias: false })).toThrow("use_expert_bias to be true, got false");
  });
});

describe("a config.json of LFM3", () => {
  const rope_parameters = {
    full_attention: { rope_type: "proportional", rope_theta: 1e6, partial_rotary_factor: 0.5 },
    sliding_attention: { rope_type: "default", rope_theta: 10_000 },
  };
  const lfm3 = (changes: object) =>
    servableConfig(
      new JsonObject(
        { model_type: "lfm3", hidden_size: 2048, num_hidden_layers: 7, rope_parameters, ...changes },
        "config.json",
        "",
      ),
      "m",
      { numEmbeddings: 128_000, hasOutput: false },
    ).model;

  it("has the class's defaults where it is silent", () => {
    const { layers, ropes, contextLength } = lfm3({});
    const heads = { kind: "attention", numHeads: 16, numKvHeads: 4, headDim: 128, valueDim: 128, gates: "heads" };
    const convolution = { kind: "convolution", width: 2048, numTaps: 7 };
    const full = { ...heads, window: 0, rope: 0 };
    expect(layers.map(({ mixer }) => mixer)).toEqual([
      convolution,
      convolution,
      full,
      convolution,
      { ...heads, window: 256, rope: 1 },
      convolution,
      full,
    ]);
    expect(layers[0]!.feedForward).toEqual({ kind: "dense", width: 7680 });
    expect(ropes).toMatchObject([
      { dim: 128, base: 1e6 },
      { dim: 128, base: 10_000 },
    ]);
    expect(contextLength).toBe(128_000);
  });

  it("names each layer's kind, and states its ropes", () => {
    const layer_types = ["sliding_attention", "conv", "full_attention"];
    const { layers } = lfm3({ num_hidden_layers: 3, layer_types, sliding_window: 8 });
    expect(layers.map(({ mixer }) => (mixer.kind === "attention" ? mixer.window : -1))).toEqual([8, -1, 0]);
    expect(() => lfm3({ layer_types: Array(7).fill("linear_attention") })).toThrow(
      "conv or full_attention or sliding_attention, got linear_attention",
    );
    expect(() => lfm3({ rope_parameters: undefined })).toThrow("expected rope_parameters");
    expect(() => modelOf({ layer_types: Array(16).fill("sliding_attention") })).toThrow("got sliding_attention");
  });

  it.each(["use_attention_gate", "use_sandwich_norm"])("is refused without %s", (key) => {
    expect(() => lfm3({ [key]: false })).toThrow(`${key} to be true, got false`);
  });
});
