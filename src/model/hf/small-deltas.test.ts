/** Keys of config.json that only a few families have. */
import { describe, expect, it } from "vitest";
import { JsonObject } from "../../formats/files/json.js";
import { NO_ROPE } from "../description/model-description.js";
import { attentionMixers } from "../description/servable.js";
import { servableConfig } from "./servable.js";

const SIZES = { hidden_size: 2048, num_hidden_layers: 4, num_attention_heads: 16, head_dim: 128 };
const LLAMA = { model_type: "llama", intermediate_size: 64, max_position_embeddings: 64 };
const modelOf = (config: object) =>
  servableConfig(new JsonObject({ ...SIZES, ...config }, "config.json", ""), "m", {
    numEmbeddings: 1000,
    hasOutput: true,
  }).model;
const refusal = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe("a config.json of EXAONE 4.0", () => {
  const layersOf = (config: object) =>
    attentionMixers(
      modelOf({ model_type: "exaone4", intermediate_size: 64, max_position_embeddings: 8192, ...config }),
    ).map(({ window, rope }) => [window, rope]);
  const [local, all] = [
    [4096, 0],
    [0, NO_ROPE],
  ];

  it("has a window of its class in three of four layers, and a rope in these alone", () => {
    expect(layersOf({})).toEqual([local, local, local, all]);
    expect(layersOf({ sliding_window_pattern: 2 })).toEqual([local, all, local, all]);
    expect(layersOf({ layer_types: Array(4).fill("full_attention") })).toEqual([all, all, all, all]);
  });

  it("has a rope in every layer where it says that there is no window", () => {
    const layer_types = Array(4).fill("full_attention");
    expect(layersOf({ sliding_window: null, layer_types })).toEqual(Array(4).fill([0, 0]));
  });

  it("is refused for a pattern in letters, which transformers takes for no number either", () => {
    const wrong = refusal("model_config", /sliding_window_pattern to be a number, got "LLLG"/);
    expect(() => layersOf({ sliding_window_pattern: "LLLG" })).toThrow(wrong);
  });
});

describe("a config.json of ERNIE 4.5", () => {
  const kindsOf = (config: object) =>
    modelOf({ model_type: "ernie4_5_moe", ...config }).layers.map(({ feedForward }) => feedForward.kind);

  it("has its class's experts behind a dense layer, chosen with a bias", () => {
    const { layers, routing, isNeoxRope, ropes } = modelOf({ model_type: "ernie4_5_moe" });
    const experts = { kind: "experts", count: 64, active: 6, width: 1536, sharedWidth: 3072 };
    expect(layers.map(({ feedForward }) => feedForward)).toEqual([
      { kind: "dense", width: 12_288 },
      ...Array(3).fill(experts),
    ]);
    expect(routing).toMatchObject({ scoring: "softmax", normalises: true, hasBias: true });
    expect({ isNeoxRope, base: ropes[0]!.base }).toEqual({ isNeoxRope: false, base: 500_000 });
  });

  it("says which layers have experts by a start, an end and an interval", () => {
    expect(kindsOf({ moe_layer_start_index: 0 })).toEqual(Array(4).fill("experts"));
    expect(kindsOf({ moe_layer_interval: 2 })).toEqual(["dense", "experts", "dense", "experts"]);
    expect(kindsOf({ moe_layer_end_index: 2 })).toEqual(["dense", "experts", "experts", "dense"]);
    expect(() => kindsOf({ moe_layer_interval: 0 })).toThrow(refusal("model_config", /moe_layer_interval/));
  });
});

describe("a config.json of Hunyuan", () => {
  const A13B = {
    model_type: "hunyuan_v1_moe",
    intermediate_size: 3072,
    num_experts: 64,
    moe_topk: [8, 8, 8, 8],
    num_shared_expert: [1, 1, 1, 1],
    moe_intermediate_size: [3072, 3072, 3072, 3072],
  };

  it("has lists of numbers that are alike in every layer", () => {
    const experts = { kind: "experts", count: 64, active: 8, width: 3072, sharedWidth: 3072 };
    expect(modelOf(A13B).layers[3]!.feedForward).toEqual(experts);
    const wrong = refusal("model_config", /moe_topk to be a number, got \[8,8,8,4\]/);
    expect(() => modelOf({ ...A13B, moe_topk: [8, 8, 8, 4] })).toThrow(wrong);
  });

  it("raises the rope's base by its alpha", () => {
    const baseOf = (rope_scaling: object, config: object = {}) =>
      modelOf({ ...A13B, rope_theta: 10_000, rope_scaling, ...config }).ropes[0]!.base;
    expect(baseOf({ type: "dynamic", alpha: 1000, factor: 1 })).toBeCloseTo(11_158_839.925, 2);
    expect(baseOf({ type: "dynamic", factor: 2 })).toBe(10_000);
    const wrong = refusal("model_config", /expected a finite base of 2 values by .*alpha, got Infinity/);
    expect(() => baseOf({ type: "dynamic", alpha: 1000 }, { head_dim: 2 })).toThrow(wrong);
    expect(() => baseOf({ type: "dynamic", alpha: -1 })).toThrow(
      refusal("model_config", /alpha to be a positive number/),
    );
    const llama = { ...LLAMA, rope_scaling: { type: "dynamic", alpha: 1000 } };
    expect(() => modelOf(llama)).toThrow(refusal("architecture_unsupported", /dynamic with alpha/));
  });

  it("is refused where layers would read the keys of others", () => {
    expect(() => modelOf({ ...A13B, use_cla: true })).toThrow(refusal("architecture_unsupported", /no .*use_cla/));
  });
});

describe("a config.json of MiniMax M2", () => {
  const M2 = { model_type: "minimax_m2", rotary_dim: 64 };

  it("states how much of a head is rotated", () => {
    const dimOf = (config: object) => modelOf({ ...M2, ...config }).ropes[0]!.dim;
    expect(dimOf({})).toBe(64);
    expect(dimOf({ partial_rotary_factor: 0.25 })).toBe(32);
    expect(dimOf({ rotary_dim: null })).toBe(128);
    expect(() => dimOf({ rotary_dim: 256 })).toThrow(refusal("model_config", /even and in \[2, 128\], got 256/));
    // Of others the key says nothing.
    expect(dimOf({ ...LLAMA })).toBe(128);
  });

  it("weighs experts by sigmoid, without a part that every token passes", () => {
    const { layers, routing } = modelOf(M2);
    const experts = { kind: "experts", count: 256, active: 8, width: 1536, sharedWidth: 0 };
    expect(layers[0]!.feedForward).toEqual(experts);
    expect(routing).toMatchObject({ scoring: "sigmoid", normalises: true, hasBias: true });
    const wrong = refusal("architecture_unsupported", /no .*shared_intermediate_size, got 1536/);
    expect(() => modelOf({ ...M2, shared_intermediate_size: 1536 })).toThrow(wrong);
  });
});

describe("a config.json of Ling", () => {
  const LING = {
    model_type: "bailing_moe",
    moe_intermediate_size: 512,
    num_shared_experts: 2,
    intermediate_size: 5120,
  };
  const LING2 = { ...LING, architectures: ["BailingMoeV2ForCausalLM"] };

  it("is of the kind that its class's name says, with the experts of that class", () => {
    const experts = { kind: "experts", count: 16, active: 2, width: 512, sharedWidth: 1024 };
    const [before, since] = [modelOf(LING), modelOf(LING2)];
    for (const { layers } of [before, since]) expect(layers[0]!.feedForward).toEqual(experts);
    expect(before).toMatchObject({ architecture: "bailingmoe", ropes: [{ dim: 128 }] });
    expect(before.routing).toMatchObject({ scoring: "softmax", normalises: true, hasBias: false });
    expect(since).toMatchObject({ architecture: "bailingmoe2", ropes: [{ dim: 64 }] });
    const grouped = { scale: 2.5, numGroups: 8, numUsedGroups: 4, hasBias: true };
    expect(since.routing).toMatchObject({ scoring: "sigmoid", normalises: true, ...grouped });
    expect(modelOf({ ...LING, model_type: "bailing_moe_v2" })).toEqual(since);
  });

  it("is refused for a matrix of outputs that is normed, and for scores by softmax since 2.0", () => {
    expect(() => modelOf({ ...LING, norm_head: true })).toThrow(
      refusal("architecture_unsupported", /no .*norm_head, got true/),
    );
    expect(() => modelOf({ ...LING2, score_function: "softmax" })).toThrow(
      refusal("architecture_unsupported", /score_function to be sigmoid, got "?softmax/),
    );
  });
});

it("a nemotron that says next to nothing has its class's sizes, and half of each head rotated", () => {
  const { layers, ropes, rmsEps, activation } = modelOf({ model_type: "nemotron" });
  expect(layers[0]).toMatchObject({
    mixer: { numKvHeads: 16 },
    feedForward: { kind: "dense", width: 24_576, isGated: false },
  });
  expect({ dim: ropes[0]!.dim, rmsEps, activation }).toEqual({ dim: 64, rmsEps: 1e-5, activation: "reluSquared" });
});

describe("a config.json of Phi-MoE", () => {
  const PHIMOE = { model_type: "phimoe", num_experts_per_tok: 2, head_dim: 4, original_max_position_embeddings: 4096 };
  const rope = { type: "longrope", short_factor: [1, 1], long_factor: [1, 2], short_mscale: 1.25, long_mscale: 1.25 };

  it("has its class's experts, each weighed among those near it, and states the rope's magnitude", () => {
    const { layers, routing, ropes, isLayerNormed } = modelOf({ ...PHIMOE, rope_scaling: rope });
    expect(layers[0]!.feedForward).toMatchObject({ kind: "experts", count: 16, active: 2, width: 6400 });
    expect(routing).toMatchObject({ scoring: "sparseMixer", hasBias: false });
    expect({ isLayerNormed, magnitude: ropes[0]!.attentionFactor }).toEqual({ isLayerNormed: true, magnitude: 1.25 });
  });

  it("is refused for another magnitude of long texts, another nearness, and more experts for a token", () => {
    const wrong = (message: RegExp) => refusal("architecture_unsupported", message);
    const other = { ...rope, long_mscale: 1.5 };
    expect(() => modelOf({ ...PHIMOE, rope_scaling: other })).toThrow(wrong(/to be short_mscale \(1.25\), got 1.5/));
    expect(() => modelOf({ ...PHIMOE, router_jitter_noise: 0.1 })).toThrow(wrong(/jitter_noise to be 0.01, got 0.1/));
    expect(() => modelOf({ ...PHIMOE, num_experts_per_tok: 3 })).toThrow(wrong(/experts_per_tok to be 2, got 3/));
  });
});

describe("a config.json before llama", () => {
  const wrong = (message: RegExp) => refusal("architecture_unsupported", message);
  const sizes = { n_embd: 32, n_layer: 2, n_head: 4 };
  const plain = (config: Record<string, unknown>) =>
    servableConfig(new JsonObject(config, "config.json", ""), "m", { numEmbeddings: 1000, hasOutput: true }).model;

  it("of GPT-2 has its class's sizes, parts four times as wide, and a table of positions in place of ropes", () => {
    const { layers, positionTable, contextLength, ropes } = plain({
      model_type: "gpt2",
      n_embd: 1280,
      n_layer: 36,
      n_head: 20,
    });
    expect(layers[0]).toMatchObject({ mixer: { headDim: 64 }, feedForward: { width: 5120, isGated: false } });
    expect({ positionTable, contextLength, ropes }).toEqual({
      positionTable: { numRows: 1024, firstRow: 0 },
      contextLength: 1024,
      ropes: [],
    });
  });

  it("of GPT-NeoX may have older names, and parts one behind the other", () => {
    const pythia = {
      model_type: "gpt_neox",
      hidden_size: 512,
      num_attention_heads: 8,
      intermediate_size: 2048,
      num_hidden_layers: 6,
    };
    const { ropes, parallel, activation } = plain({
      ...pythia,
      rotary_pct: 0.25,
      rotary_emb_base: 5000,
      hidden_act: "gelu_fast",
    });
    expect({ dim: ropes[0]!.dim, base: ropes[0]!.base, parallel, activation }).toEqual({
      dim: 16,
      base: 5000,
      parallel: "ownNorms",
      activation: "geluTanh",
    });
    expect(plain({ ...pythia, use_parallel_residual: false }).parallel).toBeUndefined();
  });

  it("of EXAONE 3 counts its layers under a key of its own", () => {
    const exaone = {
      model_type: "exaone",
      hidden_size: 64,
      num_attention_heads: 8,
      num_layers: 3,
      layer_norm_epsilon: 1e-4,
    };
    const { layers, rmsEps, ropes } = plain(exaone);
    expect([layers.length, rmsEps, ropes[0]!.base]).toEqual([3, 1e-4, 500_000]);
  });

  it("of StarCoder has one head of keys, and is refused with one for each head of queries", () => {
    const [layer] = plain({ model_type: "gpt_bigcode", ...sizes }).layers;
    expect(layer).toMatchObject({ mixer: { numHeads: 4, numKvHeads: 1 }, feedForward: { width: 128 } });
    const many = { model_type: "gpt_bigcode", ...sizes, multi_query: false };
    expect(() => plain(many)).toThrow(wrong(/multi_query to be true, got false/));
  });

  it("cannot stretch a table of positions", () => {
    const yarn = { rope_type: "yarn", rope_theta: 1e4, factor: 8, original_max_position_embeddings: 64 };
    const { contextLength } = plain({ model_type: "opt", max_position_embeddings: 64, rope_parameters: yarn });
    expect(contextLength).toBe(64);
  });

  it("is refused for OPT 350M's order of norms, and for GPT-2's scores that depend on the layer", () => {
    expect(() => plain({ model_type: "opt", do_layer_norm_before: false })).toThrow(
      wrong(/layer_norm_before to be true/),
    );
    const scaled = { model_type: "gpt2", ...sizes, scale_attn_by_inverse_layer_idx: true };
    expect(() => plain(scaled)).toThrow(wrong(/no .*scale_attn_by_inverse_layer_idx, got true/));
  });
});

it("a ministral has a window in the layers that it lists, and in all where it lists none", () => {
  const windowsOf = (config: object) => {
    const model = modelOf({
      model_type: "ministral",
      max_position_embeddings: 32_768,
      sliding_window: 4096,
      ...config,
    });
    return attentionMixers(model).map(({ window }) => window);
  };
  expect(windowsOf({})).toEqual([4096, 4096, 4096, 4096]);
  const layer_types = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"];
  expect(windowsOf({ layer_types })).toEqual([0, 4096, 4096, 0]);
});
