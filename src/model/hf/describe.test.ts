/**
 * What config.json says becomes the engine's description; what it leaves out has transformers' defaults; what is not
 * served is refused. size: one list of what each setting of a config.json becomes
 */

import { describe, expect, it } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { JsonObject } from "../../formats/files/json.js";
import { ropeFrequencies } from "../description/rope.js";
import { attentionMixers } from "../description/servable.js";
import { servableConfig } from "./servable.js";

const BASE = {
  model_type: "llama",
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 8,
  num_attention_heads: 4,
  max_position_embeddings: 4096,
};
const WEIGHTS = { numEmbeddings: 100, hasOutput: true };
const read = (changes: object) =>
  servableConfig(new JsonObject({ ...BASE, ...changes }, "config.json", ""), "m", WEIGHTS);
const modelOf = (changes: object) => read(changes).model;
const mixerOf = (changes: object) => attentionMixers(modelOf(changes))[0]!;
const windows = (changes: object) => attentionMixers(modelOf(changes)).map(({ window }) => window);
const none = Array(8).fill(0);

it("fills in what is not stated", () => {
  expect(modelOf({})).toMatchObject({
    architecture: "llama",
    vocabSize: 100,
    rmsEps: 1e-6,
    embeddingScale: 1,
    attentionScale: 0.25,
    activation: "silu",
    contextLength: 4096,
    ropes: [{ dim: 16, base: 10_000, scaling: "none" }],
  });
  expect(mixerOf({})).toMatchObject({ numKvHeads: 4, headDim: 16 });
  expect(modelOf({ model_type: "phi3" }).rmsEps).toBe(1e-5);
  expect(mixerOf({ model_type: "qwen3" }).headDim).toBe(128);
});

it("reads the published Gemma 3 wrapper, which states next to nothing", () => {
  const text_config = {
    model_type: "gemma3_text",
    hidden_size: 2560,
    intermediate_size: 10_240,
    num_hidden_layers: 34,
  };
  const rope_scaling = { factor: 8.0, rope_type: "linear" };
  const json = { model_type: "gemma3", text_config: { ...text_config, rope_scaling, sliding_window: 1024 } };
  const { model } = servableConfig(new JsonObject(json, "config.json", ""), "m");
  expect(model).toMatchObject({
    isTied: true,
    vocabSize: 262_208,
    attentionScale: 1 / 16,
    activation: "geluTanh",
    contextLength: 131_072,
    ropes: [
      { base: 1e6, scaling: "linear", factor: 8 },
      { base: 1e4, scaling: "none" },
    ],
  });
  expect(model.layers.slice(4, 7).map(({ mixer }) => mixer)).toMatchObject([
    { numHeads: 8, numKvHeads: 4, headDim: 256, window: 1024, rope: 1 },
    { numHeads: 8, numKvHeads: 4, headDim: 256, window: 0, rope: 0 },
    { numHeads: 8, numKvHeads: 4, headDim: 256, window: 1024, rope: 1 },
  ]);
});

describe("windows", () => {
  it("are every layer's of mistral, by default too, and none where null", () => {
    expect(windows({ model_type: "mistral", sliding_window: 128 })).toEqual(Array(8).fill(128));
    expect(mixerOf({ model_type: "mistral", max_position_embeddings: 8192 }).window).toBe(4096);
    expect(windows({ model_type: "mistral", sliding_window: null })).toEqual(none);
  });

  it("as long as the context are none", () => {
    expect(windows({ model_type: "phi3", sliding_window: 4096 })).toEqual(none);
  });

  it("of qwen are used only where it says so, from max_window_layers on", () => {
    const qwen = { model_type: "qwen2", sliding_window: 128, max_window_layers: 6 };
    expect(windows(qwen)).toEqual(none);
    expect(windows({ ...qwen, use_sliding_window: true })).toEqual([0, 0, 0, 0, 0, 0, 128, 128]);
  });

  it("follow layer_types where there are any", () => {
    const layer_types = ["full_attention", ...Array(7).fill("sliding_attention")];
    const json = { model_type: "gemma3_text", sliding_window: 128, layer_types };
    expect(windows(json)).toEqual([0, ...Array(7).fill(128)]);
    expect(() => read({ ...json, layer_types: ["full_attention"] })).toThrow(MillraceError);
    expect(() => read({ ...json, layer_types: Array(8).fill("chunked_attention") })).toThrow(MillraceError);
  });
});

describe("rope", () => {
  const rope = (rope_scaling: object, more: object = {}) => read({ rope_scaling, rope_theta: 500_000, ...more });

  it("of llama3 divides long waves, keeps short ones, and interpolates between (transformers' own numbers)", () => {
    const { model, ropeFactors } = rope(
      {
        rope_type: "llama3",
        factor: 8,
        low_freq_factor: 1,
        high_freq_factor: 4,
        original_max_position_embeddings: 8192,
      },
      { head_dim: 128 },
    );
    expect(model.ropes[0]).toMatchObject({ base: 500_000, scaling: "none" });
    const factors = ropeFactors.all!;
    expect([factors[0], factors[28], factors[63]]).toEqual([1, 1, 8]);
    expect(factors[32]).toBeCloseTo(2.69453, 5);
  });

  it("of yarn stretches the context and has one magnitude in all", () => {
    const yarn = { type: "yarn", factor: 4, original_max_position_embeddings: 4096 };
    const { model } = rope(yarn);
    expect(model.contextLength).toBe(16_384);
    expect(ropeFrequencies(model.ropes[0]!, undefined).magnitude).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
    const stated = rope({ ...yarn, attention_factor: 1.5 }).model.ropes[0]!;
    expect(ropeFrequencies(stated, undefined).magnitude).toBeCloseTo(1.5, 12);
    const both = rope({ ...yarn, mscale: 1, mscale_all_dim: 1 }).model.ropes[0]!;
    expect(ropeFrequencies(both, undefined).magnitude).toBeCloseTo(1, 12);
    expect(both.roundsYarnRange).toBe(true);
    expect(rope({ ...yarn, truncate: false }).model.ropes[0]!.roundsYarnRange).toBe(false);
  });

  it("of Phi-3 takes part of a head and two sets of factors", () => {
    const long = { type: "longrope", short_factor: [1, 2, 3, 4], long_factor: [5, 6, 7, 8] };
    const json = { model_type: "phi3", partial_rotary_factor: 0.5, original_max_position_embeddings: 1024 };
    const { model, ropeFactors } = rope(long, json);
    expect(model.ropes[0]).toMatchObject({ dim: 8, scaling: "longrope", originalContextLength: 1024 });
    expect(model.ropes[0]!.attentionFactor).toBeCloseTo(Math.sqrt(1 + Math.log(4) / Math.log(1024)), 12);
    expect([[...ropeFactors.short!], [...ropeFactors.long!]]).toEqual([
      [1, 2, 3, 4],
      [5, 6, 7, 8],
    ]);
    expect(() => rope({ ...long, short_factor: [1] }, json)).toThrow(/short_factor to have 4 numbers, got 1/);
  });

  /**
   * transformers 5.24 gives random llamas of that kind the log-probabilities that the engine gives them, up to the
   * trained length.
   */
  it("that is dynamic is plain up to the trained length", () => {
    const { model, ropeFactors } = rope({ type: "dynamic", factor: 2 }, { max_position_embeddings: 512 });
    expect(model).toMatchObject({ contextLength: 512, ropes: [{ base: 500_000, scaling: "none", factor: 1 }] });
    expect(ropeFactors).toEqual({});
  });

  it.each([
    [{ rope_type: "dynamic", factor: 2, alpha: 1000 }, "architecture_unsupported"],
    [{ rope_type: "dynamic", factor: 2, original_max_position_embeddings: 64 }, "architecture_unsupported"],
    [{ rope_type: "ntk" }, "architecture_unsupported"],
    [{ rope_type: "linear" }, "model_config"],
    [{ rope_type: "linear", factor: -1 }, "model_config"],
    [{ rope_type: "llama3", factor: 8 }, "model_config"],
  ])("%j is refused with %s", (scaling, code) => {
    expect(() => rope(scaling)).toThrow(expect.objectContaining({ code }));
  });
});

describe("refuses", () => {
  it.each([
    [{ model_type: "mamba" }, "architecture_unsupported", /model_type to be one of llama, .*, got mamba/],
    [{ model_type: "__proto__" }, "architecture_unsupported", /got __proto__/],
    [{ hidden_act: "relu" }, "architecture_unsupported", /hidden_act to be silu, got relu/],
    [{ final_logit_softcapping: 30 }, "architecture_unsupported", /no config\.json: final_logit_softcapping/],
    [{ model_type: "qwen2", hidden_size: undefined }, "model_config", /config\.json: hidden_size to be an integer/],
    [{ hidden_size: 2 ** 40 }, "model_config", /hidden_size to be an integer in \[1, 262144\]/],
    [{ num_hidden_layers: 1.5 }, "model_config", /num_hidden_layers/],
    [{ num_key_value_heads: 3 }, "model_config", /4 query heads in whole groups/],
    [{ rms_norm_eps: 0 }, "model_config", /rms_norm_eps to be a positive number/],
    [{ head_dim: "16" }, "model_config", /head_dim to be a number, got "16"/],
    [{ head_dim: 7 }, "model_config", /rotated dimensions even/],
  ])("%j", (changes, code, message) => {
    const error = (() => {
      try {
        read(changes);
      } catch (thrown) {
        return thrown as MillraceError;
      }
      throw new Error("expected a refusal");
    })();
    expect([error.code, error.message]).toEqual([code, expect.stringMatching(message)]);
  });
});

describe("the wrapper of Mistral's models with a vision tower", () => {
  const wrapped = (text: object) => {
    const json = { model_type: "mistral3", text_config: { ...BASE, num_key_value_heads: 2, ...text } };
    return servableConfig(new JsonObject(json, "config.json", ""), "m", WEIGHTS).model;
  };
  const rope_parameters = { rope_type: "yarn", factor: 16, original_max_position_embeddings: 256, rope_theta: 1e6 };

  it("holds a model of its own kind, or of an older one", () => {
    const scaled = { model_type: "ministral3", rope_parameters: { ...rope_parameters, llama_4_scaling_beta: 0.1 } };
    expect(wrapped(scaled)).toMatchObject({ architecture: "mistral3", queryScaling: { beta: 0.1, length: 256 } });
    expect(wrapped({ model_type: "ministral3", rope_parameters }).queryScaling).toBeUndefined();
    expect(wrapped({ model_type: "mistral", sliding_window: null }).architecture).toBe("mistral");
    const latent = { qk_nope_head_dim: 8, v_head_dim: 8, kv_lora_rank: 8, qk_rope_head_dim: 4 };
    // The share of a head, all of whose rotated part turns.
    const ropes = { ...scaled.rope_parameters, partial_rotary_factor: 1 / 3 };
    const small4 = wrapped({ model_type: "mistral4", ...latent, rope_parameters: ropes });
    expect(small4).toMatchObject({ architecture: "mistral4", queryScaling: { beta: 0.1, length: 256 } });
    expect(small4.ropes).toMatchObject([{ dim: 4 }]);
    expect(small4.routing).toMatchObject({ scoring: "softmax", normalises: true, numGroups: 1 });
  });

  it("has no growth of queries where its factor is 0, and is refused where another kind or another key has one", () => {
    const none = { model_type: "ministral3", rope_parameters: { ...rope_parameters, llama_4_scaling_beta: 0 } };
    expect(wrapped(none).queryScaling).toBeUndefined();
    const refusal = (key: string) =>
      expect.objectContaining({
        code: "architecture_unsupported",
        message: expect.stringMatching(`expected no .*${key}, got`),
      });
    const beta = { ...rope_parameters, llama_4_scaling_beta: 0.1 };
    for (const key of ["rope_parameters", "rope_scaling"]) {
      const text = { model_type: "mistral", sliding_window: null, [key]: beta };
      expect(() => wrapped(text)).toThrow(refusal(`${key}.llama_4_scaling_beta`));
    }
    for (const model_type of ["llama", "gemma2", "granite", "smollm3"]) {
      expect(() => read({ model_type, rope_parameters: beta })).toThrow(refusal("llama_4_scaling_beta"));
    }
    const byKind = { full_attention: rope_parameters, sliding_attention: { llama_4_scaling_beta: 0.1 } };
    expect(() => read({ model_type: "olmo3", rope_parameters: byKind })).toThrow(refusal("llama_4_scaling_beta"));
    for (const [key, value] of Object.entries({ llama_4_scaling: { beta: 0.1 }, llama_4_scaling_beta: 0.1 })) {
      expect(() => wrapped({ model_type: "ministral3", rope_parameters, [key]: value })).toThrow(refusal(key));
    }
  });

  it("is refused around another kind, or around a Ministral without rope settings", () => {
    const refusal = (code: string, message: RegExp) =>
      expect.objectContaining({ code, message: expect.stringMatching(message) });
    expect(() => wrapped({ model_type: "mamba" })).toThrow(
      refusal("architecture_unsupported", /text_config.model_type to be one of .*, got mamba/),
    );
    expect(() => wrapped({ model_type: "ministral3" })).toThrow(refusal("model_config", /expected rope_parameters/));
  });
});

it("reads which layers have no rope, and refuses their windows", () => {
  const ropes = (changes: object) =>
    attentionMixers(modelOf({ model_type: "smollm3", ...changes })).map(({ rope }) => rope);
  expect(ropes({})).toEqual([0, 0, 0, -1, 0, 0, 0, -1]);
  expect(ropes({ no_rope_layer_interval: 2 })).toEqual([0, -1, 0, -1, 0, -1, 0, -1]);
  expect(ropes({ no_rope_layers: [0, 1, 1, 1, 1, 1, 1, 0] })).toEqual([-1, 0, 0, 0, 0, 0, 0, -1]);
  expect(() => ropes({ no_rope_layers: [1, 0] })).toThrow(/to have 8 numbers, got 2/);
  expect(() => ropes({ use_sliding_window: true })).toThrow(/expected no .*use_sliding_window, got true/);
});

it("reads Gemma 2's bounds, where a null is none", () => {
  const caps = (changes: object) => {
    const { attentionCap, logitCap } = modelOf({ model_type: "gemma2", ...changes });
    return [attentionCap, logitCap];
  };
  expect(caps({})).toEqual([50, 30]);
  expect(caps({ attn_logit_softcapping: null, final_logit_softcapping: 7 })).toEqual([0, 7]);
  expect(() => caps({ attn_logit_softcapping: -1 })).toThrow(/positive number, got -1/);
  expect(() => modelOf({ final_logit_softcapping: 30 })).toThrow(/expected no .*final_logit_softcapping, got 30/);
  expect(windows({ model_type: "gemma2", sliding_window: 16 })).toEqual([16, 0, 16, 0, 16, 0, 16, 0]);
});

describe("the ropes of a model whose windows have one of their own", () => {
  const olmo = (changes: object) => modelOf({ model_type: "olmo3", sliding_window: 64, ...changes }).ropes;
  const bases = (changes: object) => olmo(changes).map(({ base }) => base);
  const yarn = { rope_type: "yarn", factor: 8, original_max_position_embeddings: 512 };

  it("are stated for each kind of layer, each with a scaling of its own", () => {
    const rope_parameters = {
      full_attention: { ...yarn, rope_theta: 4e5 },
      sliding_attention: { rope_type: "linear", factor: 2, rope_theta: 3e4 },
    };
    expect(olmo({ rope_parameters })).toMatchObject([
      { base: 4e5, scaling: "yarn", factor: 8, originalContextLength: 512 },
      { base: 3e4, scaling: "linear", factor: 2 },
    ]);
    const gemma = modelOf({ model_type: "gemma3_text", rope_parameters }).ropes;
    expect(gemma.map(({ base, scaling }) => [base, scaling])).toEqual([
      [4e5, "yarn"],
      [3e4, "linear"],
    ]);
  });

  it("have the class's base where a kind does not say it, and not that of the other kind", () => {
    expect(bases({ rope_parameters: { full_attention: { rope_theta: 1e4 } } })).toEqual([1e4, 5e5]);
    expect(bases({ rope_parameters: { full_attention: { rope_theta: 1e4 }, sliding_attention: null } })).toEqual([
      1e4, 5e5,
    ]);
    expect(bases({ rope_parameters: { sliding_attention: { rope_theta: 1e4 } } })).toEqual([5e5, 1e4]);
    const gemma = { model_type: "gemma3_text", rope_parameters: { full_attention: { rope_theta: 2e6 } } };
    expect(modelOf(gemma).ropes.map(({ base }) => base)).toEqual([2e6, 1e4]);
    expect(modelOf({ ...gemma, rope_local_base_freq: 3e4 }).ropes[1]!.base).toBe(3e4);
    expect(bases({ rope_local_base_freq: 3e4 })).toEqual([5e5, 5e5]);
  });

  it("join what both generations of transformers write, and prefer what both read", () => {
    const rope_parameters = { full_attention: { rope_theta: 4e5 }, sliding_attention: { rope_theta: 4e5 } };
    const both = olmo({ rope_parameters, rope_theta: 4e5, rope_scaling: yarn });
    expect(both.map(({ base, scaling }) => [base, scaling])).toEqual([
      [4e5, "yarn"],
      [4e5, "none"],
    ]);
    const flat = { rope_scaling: yarn, rope_parameters: { rope_type: "default", rope_theta: 7 }, rope_theta: 4e5 };
    expect(modelOf(flat).ropes).toMatchObject([{ base: 4e5, scaling: "yarn" }]);
    expect(modelOf({ ...flat, rope_scaling: {} }).ropes).toMatchObject([{ base: 7, scaling: "none" }]);
  });

  it("are refused with factors for each frequency, and for a class with one rope", () => {
    const llama3 = { rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 };
    for (const kind of ["full_attention", "sliding_attention"]) {
      const refused = expect.objectContaining({ code: "architecture_unsupported" });
      expect(() => olmo({ rope_parameters: { [kind]: llama3 } })).toThrow(refused);
      expect(() => modelOf({ rope_parameters: { [kind]: yarn } })).toThrow(/expected one rope for all layers/);
    }
  });
});

it("gives OLMo 3's windows the model's base, without its scaling", () => {
  const rope_scaling = { rope_type: "yarn", factor: 8, original_max_position_embeddings: 512 };
  const { ropes, layers } = modelOf({ model_type: "olmo3", rope_theta: 4e5, rope_scaling, sliding_window: 64 });
  expect(ropes).toMatchObject([
    { base: 4e5, scaling: "yarn" },
    { base: 4e5, scaling: "none" },
  ]);
  expect(attentionMixers({ layers }).map(({ rope }) => rope)).toEqual([1, 1, 1, 0, 1, 1, 1, 0]);
});
