/** What a config.json says of recurrent layers, its defaults, and numbers that no model has. */
import { describe, expect, it } from "vitest";
import { JsonObject } from "../../formats/files/json.js";
import { attentionMixers } from "../description/servable.js";
import { kvBytesPerToken, stateBytes } from "../description/sizes.js";
import { servableConfig } from "./servable.js";

const BASE = {
  model_type: "qwen3_5_text",
  hidden_size: 5120,
  intermediate_size: 17_408,
  num_hidden_layers: 64,
  num_attention_heads: 24,
  num_key_value_heads: 4,
  max_position_embeddings: 262_144,
};
const modelOf = (changes: object) =>
  servableConfig(new JsonObject({ ...BASE, ...changes }, "config.json", ""), "m", {
    numEmbeddings: 248_320,
    hasOutput: true,
  }).model;
const MIB = 2 ** 20;

describe("a config.json of recurrent layers", () => {
  it("has the class's defaults where it is silent", () => {
    const { layers, ropes, architecture } = modelOf({});
    expect(architecture).toBe("qwen35");
    expect(layers.filter(({ mixer }) => mixer.kind === "attention")).toHaveLength(16);
    expect(layers[3]!.mixer).toMatchObject({ kind: "attention", headDim: 256, gates: "values" });
    expect(layers[0]!.mixer).toEqual({
      kind: "delta",
      numHeads: 32,
      numKeyHeads: 16,
      headDim: 128,
      valueDim: 128,
      numTaps: 4,
      isTiled: false,
    });
    expect(ropes).toMatchObject([{ dim: 64, base: 10_000 }]);
  });

  it("says how much a sequence keeps", () => {
    // As llama.cpp's buffers are for Qwen3.6-27B and Qwen3.6-35B-A3B.
    expect(stateBytes(modelOf({ linear_num_value_heads: 48 })) / MIB).toBeCloseTo(149.6, 1);
    const moe = {
      model_type: "qwen3_5_moe",
      text_config: { ...BASE, model_type: "qwen3_5_moe_text", hidden_size: 2048, num_hidden_layers: 40 },
    };
    const model = modelOf({ ...moe, text_config: { ...moe.text_config, num_key_value_heads: 2 } });
    expect(model.architecture).toBe("qwen35moe");
    expect(stateBytes(model) / MIB).toBeCloseTo(62.8, 1);
    expect(kvBytesPerToken(model, "f16")).toBe(20_480);
    expect(model.layers[0]!.feedForward).toMatchObject({
      count: 256,
      active: 8,
      sharedWidth: 512,
      isSharedGated: true,
    });
  });

  it("names its layers, or every so-many-th with attention", () => {
    const kinds = (changes: object) =>
      modelOf({ num_hidden_layers: 4, ...changes }).layers.map(({ mixer }) => mixer.kind);
    const [A, D] = ["attention", "delta"];
    expect(kinds({ full_attention_interval: 2 })).toEqual([D, A, D, A]);
    const [full, linear] = ["full_attention", "linear_attention"];
    expect(kinds({ layer_types: [full, linear, full, full] })).toEqual([A, D, A, A]);
    expect(attentionMixers(modelOf({})).every(({ window }) => window === 0)).toBe(true);
  });

  it("of Qwen3-Next may choose how experts are weighed, and those of Qwen3.5 not", () => {
    const normalises = (changes: object) => modelOf(changes).routing.normalises;
    expect(normalises({ model_type: "qwen3_next" })).toBe(true);
    expect(normalises({ model_type: "qwen3_next", norm_topk_prob: false })).toBe(false);
    expect(normalises({ model_type: "qwen3_5_moe_text", norm_topk_prob: false })).toBe(true);
  });

  it.each([
    { linear_num_value_heads: 33 },
    { linear_num_key_heads: 0 },
    { linear_key_head_dim: 1 << 20 },
    { linear_value_head_dim: -1 },
    { linear_conv_kernel_dim: 65 },
    { linear_conv_kernel_dim: 0 },
    { layer_types: ["full_attention"] },
    { layer_types: Array(64).fill("sliding_attention") },
    { full_attention_interval: 0 },
  ])("with numbers that no model has is refused (%#)", (changes) => {
    expect(() => modelOf(changes)).toThrow(expect.objectContaining({ code: "model_config" }));
  });

  it("with other gates is refused", () => {
    expect(modelOf({ attn_output_gate: true, output_gate_type: "swish" }).architecture).toBe("qwen35");
    for (const changes of [{ attn_output_gate: false }, { output_gate_type: "sigmoid" }]) {
      expect(() => modelOf(changes)).toThrow(expect.objectContaining({ code: "architecture_unsupported" }));
    }
  });

  it("without a layer with attention is refused", () => {
    expect(() => modelOf({ layer_types: Array(64).fill("linear_attention") })).toThrow(
      /at least one layer with attention/,
    );
  });
});
