import fc from "fast-check";
import { expect, test } from "vitest";
import { configJson } from "./config-json.js";

test("floats have a point or an exponent wherever they stand, and other numbers are as they are", () => {
  const text = configJson({
    rope_theta: 500_000,
    attn_logit_softcapping: 50,
    final_logit_softcapping: null,
    rms_norm_eps: 1e-6,
    rope_scaling: { factor: 8, beta_fast: 1e21, original_max_position_embeddings: 8192, long_factor: [1, 1.5, -2] },
    head_dim: 64,
    eos_token_id: [1, 2],
    sliding_window: undefined,
    layer_types: [],
  });
  expect(text).toBe(`{
  "rope_theta": 500000.0,
  "attn_logit_softcapping": 50.0,
  "final_logit_softcapping": null,
  "rms_norm_eps": 0.000001,
  "rope_scaling": {
    "factor": 8.0,
    "beta_fast": 1e+21,
    "original_max_position_embeddings": 8192,
    "long_factor": [
      1.0,
      1.5,
      -2.0
    ]
  },
  "head_dim": 64,
  "eos_token_id": [
    1,
    2
  ],
  "layer_types": []
}
`);
});

test("texts that look like such a line stay as they are", () => {
  const config = { model_type: 'x\n  "attn_logit_softcapping": 50\n', architectures: ['"rope_theta": 1,\n'] };
  expect(configJson(config)).toBe(`${JSON.stringify(config, null, 2)}\n`);
});

test("any configuration is written as JSON.stringify does, but for the points", () => {
  const key = fc.oneof(fc.constantFrom("rope_theta", "factor", "hidden_size", "a b"), fc.string());
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.string(), fc.boolean()),
      fc.constant(null),
      fc.array(tie("tree"), { maxLength: 4 }),
      fc.dictionary(key, tie("tree"), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(fc.dictionary(key, tree, { maxKeys: 6 }), (config) => {
      const text = configJson(config);
      // Minus zero becomes zero in both.
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(config)));
      const isFloat = Object.hasOwn(config, "rope_theta") || text.includes('"rope_theta"') || text.includes('"factor"');
      if (!isFloat) expect(text).toBe(`${JSON.stringify(config, null, 2)}\n`);
    }),
  );
});
