/** Configurations of models with a Mamba-2, and of layers that are one part each. */
import { expect, it } from "vitest";
import { parseJsonObject } from "../../formats/files/json.js";
import { stateBytes, totalParameters } from "../description/sizes.js";
import { describeConfig } from "./describe.js";
import { servableConfig } from "./servable.js";

const GRANITE = {
  model_type: "granitemoehybrid",
  hidden_size: 1536,
  num_hidden_layers: 40,
  layer_types: Array.from({ length: 40 }, (_, i) => (i % 10 === 5 ? "attention" : "mamba")),
  num_attention_heads: 12,
  num_key_value_heads: 4,
  intermediate_size: 512,
  shared_intermediate_size: 1024,
  num_local_experts: 64,
  num_experts_per_tok: 6,
  mamba_n_heads: 48,
  mamba_d_head: 64,
  mamba_d_state: 128,
  position_embedding_type: "nope",
  attention_multiplier: 0.0078125,
  tie_word_embeddings: true,
  vocab_size: 100_352,
};
const NEMOTRON = {
  model_type: "nemotron_h",
  hidden_size: 256,
  hybrid_override_pattern: "M-*E",
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  intermediate_size: 512,
  mamba_num_heads: 8,
  n_groups: 2,
  n_routed_experts: 8,
  moe_intermediate_size: 64,
  vocab_size: 1000,
  mlp_hidden_act: "relu2",
  layer_norm_epsilon: 1e-4,
};

const config = (base: object, changes: object) =>
  parseJsonObject(JSON.stringify({ ...base, ...changes }), "config.json");
const served = (base: object, changes: object = {}) => servableConfig(config(base, changes), "model").model;

it("Granite 4.0 H Tiny has the states and the parameters of its card, and no positions", () => {
  const model = served(GRANITE);
  expect(model.layers[0]!.mixer).toEqual({
    kind: "mamba",
    numHeads: 48,
    numGroups: 1,
    stateDim: 128,
    valueDim: 64,
    numTaps: 4,
  });
  expect(model.layers[5]!.mixer).toMatchObject({ kind: "attention", rope: -1 });
  expect(served(GRANITE, { position_embedding_type: "rope" }).layers[5]!.mixer).toMatchObject({ rope: 0 });
  expect(model).toMatchObject({ attentionScale: 0.0078125, routing: { normalises: true } });
  expect(stateBytes(model)).toBe(36 * 4 * (48 * 64 * 128 + 3 * (3072 + 256)));
  expect(totalParameters(model) / 6.94e9).toBeCloseTo(1, 2);
});

it("a Granite without experts has its shared part alone", () => {
  const { layers } = served(GRANITE, { num_local_experts: 0 });
  expect(layers[0]!.feedForward).toEqual({ kind: "dense", width: 1024 });
});

it("Nemotron's layers are one part each, by letters or by names", () => {
  const model = served(NEMOTRON);
  const kinds = (all: typeof model) =>
    all.layers.map(({ mixer, feedForward }) => [mixer.kind, feedForward.kind, feedForward.width]);
  expect(kinds(model)).toEqual([
    ["mamba", "dense", 0],
    ["none", "dense", 512],
    ["attention", "dense", 0],
    ["none", "experts", 64],
  ]);
  const names = ["mamba", "mlp", "full_attention", "moe"];
  expect(kinds(served(NEMOTRON, { hybrid_override_pattern: undefined, layers_block_type: names }))).toEqual(
    kinds(model),
  );
  expect(model).toMatchObject({ architecture: "nemotron_h_moe", rmsEps: 1e-4, activation: "reluSquared" });
  const dense = served(NEMOTRON, { hybrid_override_pattern: "M-*-" });
  expect(dense.architecture).toBe("nemotron_h");
});

it.each([
  [GRANITE, { mamba_n_groups: 5 }, "model_config", /48 heads in whole groups of .*mamba_n_groups, got 5/],
  [GRANITE, { mamba_d_state: 0 }, "model_config", /mamba_d_state to be an integer in \[1, 1024\], got 0/],
  [GRANITE, { mamba_d_conv: 10_000 }, "model_config", /mamba_d_conv to be an integer in \[1, 64\], got 10000/],
  [GRANITE, { mamba_d_head: 32 }, "model_config", /mamba_d_head in .* 3072 values in 48 heads, got 32/],
  [GRANITE, { layer_types: ["mamba"] }, "model_config", /kinds of 40 layers, .* got 1/],
  [GRANITE, { layer_types: Array(40).fill("mamba") }, "architecture_unsupported", /at least one layer with attention/],
  [
    GRANITE,
    { time_step_limit: [0, 0.1] },
    "architecture_unsupported",
    /time_step_limit without an upper bound, got 0.1/,
  ],
  [GRANITE, { time_step_limit: [0.1, null] }, "architecture_unsupported", /time_step_limit from 0 on, got 0.1/],
  [GRANITE, { time_step_limit: null }, "model_config", /time_step_limit to be two bounds, got nothing/],
  [GRANITE, { time_step_limit: "0, 1" }, "model_config", /time_step_limit to be an array, got "0, 1"/],
  [GRANITE, { time_step_limit: [0] }, "model_config", /time_step_limit to be two bounds, got \[0\]/],
  [NEMOTRON, { time_step_limit: [0, null, 1] }, "model_config", /two bounds, got \[0,null,1\]/],
  [NEMOTRON, { time_step_limit: [null, null] }, "model_config", /two bounds, got \[null,null\]/],
  [NEMOTRON, { time_step_limit: [0, "Infinity"] }, "model_config", /two bounds, got \[0,"Infinity"\]/],
  [GRANITE, { mamba_proj_bias: "false" }, "model_config", /mamba_proj_bias to be a boolean, got "false"/],
  [NEMOTRON, { use_conv_bias: 1 }, "model_config", /use_conv_bias to be a boolean, got 1/],
  [GRANITE, { hidden_act: "gelu" }, "architecture_unsupported", /hidden_act to be silu, got gelu/],
  [NEMOTRON, { hybrid_override_pattern: "M-*X" }, "model_config", /to name layers M, \*, -, E, got X/],
  [NEMOTRON, { num_hidden_layers: 5 }, "model_config", /kinds of 5 layers/],
  [NEMOTRON, { n_groups: 3 }, "model_config", /8 heads in whole groups of .*n_groups, got 3/],
  [NEMOTRON, { moe_latent_size: 32 }, "architecture_unsupported", /no .*moe_latent_size, got 32/],
  [NEMOTRON, { mamba_hidden_act: "gelu" }, "architecture_unsupported", /mamba_hidden_act to be silu, got "gelu"/],
  [NEMOTRON, { mlp_hidden_act: "silu" }, "architecture_unsupported", /hidden_act to be relu2, got silu/],
  [NEMOTRON, { n_routed_experts: 0 }, "model_config", /n_routed_experts above 0/],
] as const)("what no model has, or nobody computes, is refused (%#)", (base, changes, code, message) => {
  let thrown: unknown;
  try {
    served(base, changes);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
});

it("a limit of steps that JSON has no word for is none", () => {
  expect(() => served(GRANITE, { time_step_limit: [0, { __float__: "Infinity" }] })).not.toThrow();
  const published = '{"time_step_limit": [0.0, Infinity], "text": "NaN and -Infinity", "least": -Infinity, ';
  const text = published + JSON.stringify(NEMOTRON).slice(1);
  const parsed = parseJsonObject(text, "config.json");
  expect(parsed.raw).toMatchObject({ time_step_limit: [0, null], text: "NaN and -Infinity", least: null });
  expect(() => servableConfig(parsed, "model")).not.toThrow();
  expect(() => parseJsonObject('{"a": Infinite}', "config.json")).toThrow(/expected JSON/);
  expect(describeConfig(config(NEMOTRON, {}), "model").layers).toHaveLength(4);
});
