/** What config.json files of Gemma 4 say becomes the description of layers that differ. */
import { expect, it } from "vitest";
import { JsonObject } from "../../formats/files/json.js";
import { ropeFrequencies } from "../description/rope.js";
import { attentionMixers } from "../description/servable.js";
import { servableConfig } from "./servable.js";

const BASE = {
  model_type: "gemma4_text",
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 8,
  num_attention_heads: 4,
  max_position_embeddings: 4096,
  hidden_size_per_layer_input: 0,
  sliding_window: 64,
};
const WEIGHTS = { numEmbeddings: 100, hasOutput: true };
const modelOf = (changes: object) =>
  servableConfig(new JsonObject({ ...BASE, ...changes }, "config.json", ""), "m", WEIGHTS).model;

const heads = (changes: object) =>
  attentionMixers(modelOf(changes)).map(({ numKvHeads, headDim }) => [numKvHeads, headDim]);

it("has wider heads in layers without a window, which a file states once or layer by layer", () => {
  const usual = [2, 8];
  const stated = { head_dim: 8, num_key_value_heads: 2, global_head_dim: 16, num_global_key_value_heads: 1 };
  const six = { num_hidden_layers: 6 };
  const five = new Array(5).fill(usual);
  expect(heads({ ...six, ...stated })).toEqual([...five, [2, 16]]);
  expect(heads({ ...six, ...stated, attention_k_eq_v: true })).toEqual([...five, [1, 16]]);
  const per_layer_config = { 5: { head_dim: 32, num_key_value_heads: 1 } };
  expect(heads({ ...six, ...stated, per_layer_config })).toEqual([...five, [1, 32]]);
  const refused = (entry: object) => () => heads({ ...six, ...stated, per_layer_config: entry });
  expect(refused({ 6: {} })).toThrow(/per_layer_config to name layers below 6, got 6/);
  expect(refused({ 5: { intermediate_size: 7 } })).toThrow(/expected no .*per_layer_config.5.intermediate_size/);
  expect(refused({ 5: { num_key_value_heads: 3 } })).toThrow(/in whole groups/);
});

it("sees everything in the last layer, and takes a quarter of the pairs where a file is silent", () => {
  const layer_types = new Array(8).fill("sliding_attention");
  const model = modelOf({ layer_types, rope_theta: null });
  const { ropes, attentionScale, embeddingScale, hasValueNorm } = model;
  expect(attentionMixers(model).map(({ window }) => window)).toEqual([...new Array(7).fill(64), 0]);
  expect(ropes.map(({ dim, base }) => [dim, base])).toEqual([
    [512, 1e6],
    [attentionMixers(model)[0]!.headDim, 1e4],
  ]);
  expect([attentionScale, hasValueNorm]).toEqual([1, true]);
  expect(embeddingScale).toBeGreaterThan(1);
});

it("lets its last layers read the keys of the last one of their kind", () => {
  const kinds = "sffsfs".split("").map((kind) => (kind === "s" ? "sliding_attention" : "full_attention"));
  const shared = { num_hidden_layers: 8, layer_types: [...kinds, ...kinds.slice(3, 5)], num_kv_shared_layers: 3 };
  const model = modelOf({ ...shared, use_double_wide_mlp: true, intermediate_size: 10 });
  expect(attentionMixers(model).map(({ keysOf }) => keysOf)).toEqual([...new Array(5).fill(undefined), 3, 3, 4]);
  expect(model.layers.map(({ feedForward }) => feedForward.width)).toEqual([10, 10, 10, 10, 10, 20, 20, 20]);
  expect(() => modelOf({ ...shared, num_kv_shared_layers: 8 })).toThrow(/to read keys and values of a layer before it/);
  expect(() => modelOf({ ...shared, num_kv_shared_layers: 7 })).toThrow(/to read keys and values of a layer before it/);
});

it("may see images from both sides, which are refused, but not texts", () => {
  expect(modelOf({ use_bidirectional_attention: "vision" }).isCausal).toBe(true);
  expect(() => modelOf({ use_bidirectional_attention: "all" })).toThrow(/expected no .*use_bidirectional_attention/);
});

it("has inputs of layers for every token of the vocabulary, where a file is silent too", () => {
  const silent = { hidden_size_per_layer_input: null, vocab_size: 100, vocab_size_per_layer_input: 100 };
  expect(modelOf(silent).layerInputWidth).toBe(256);
  expect(() => modelOf({ ...silent, vocab_size_per_layer_input: 99 })).toThrow(/to be the vocabulary's 100, got 99/);
  expect(modelOf({ ...silent, model_type: "gemma4_unified_text" }).layerInputWidth).toBeUndefined();
  expect(() => modelOf({ model_type: "llama", hidden_size_per_layer_input: null, num_kv_shared_layers: 2 })).toThrow(
    /expected no .*num_kv_shared_layers, got 2/,
  );
});

it("turns the first pairs of a head as if all turned, where its rope is proportional", () => {
  const full = { rope_type: "proportional", partial_rotary_factor: 0.25, factor: 2, rope_theta: 1e6 };
  const config = { ...BASE, global_head_dim: 32, rope_parameters: { full_attention: full, sliding_attention: {} } };
  const { model, ropeFactors } = servableConfig(new JsonObject(config, "config.json", ""), "m", WEIGHTS);
  expect(model.ropes[0]).toMatchObject({ dim: 32, scaling: "none", factor: 1 });
  expect(Array.from(ropeFactors.all!)).toEqual([2, 2, 2, 2, ...new Array(12).fill(Math.fround(1e30))]);
  const { invFreq } = ropeFrequencies(model.ropes[0]!, ropeFactors.all);
  expect(invFreq[4]! * model.contextLength).toBeLessThan(1e-20);
});
