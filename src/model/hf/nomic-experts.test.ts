/**
 * nomic_bert with experts (nomic-embed-text v2): which layers have them, and settings and tensors that are not computed
 * are refused. Its vectors are tested in src/engine/encoders.test.ts.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bias, changedFolder } from "../../../test/helpers/changed-folder.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { vectorsOf } from "../../../test/helpers/pooled-vectors.js";
import { JsonObject } from "../../formats/files/json.js";
import { totalParameters } from "../description/sizes.js";
import { openModel } from "../open-model.js";
import { servableConfig } from "./servable.js";

const root = mkdtempSync(join(tmpdir(), "millrace-nomic-experts-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const MODEL = fixture("hf-encoders/nomic_bert_moe");
const settings = JSON.parse(readFileSync(join(MODEL, "config.json"), "utf8")) as Record<string, unknown>;
const configOf = (changes: object) =>
  servableConfig(new JsonObject({ ...settings, ...changes }, "config.json", ""), "m").model;
const kinds = (changes: object) => configOf(changes).layers.map(({ feedForward }) => feedForward.kind);

it("the second of each moe_every_n_layers layers has experts", () => {
  expect(kinds({})).toEqual(["dense", "experts", "dense", "dense", "experts"]);
  expect(kinds({ moe_every_n_layers: 2 })).toEqual(["dense", "experts", "dense", "experts", "dense"]);
  expect(kinds({ moe_every_n_layers: 9 })).toEqual(["dense", "experts", "dense", "dense", "dense"]);
  expect(kinds({ moe_every_n_layers: 1 })).toEqual(["dense", "dense", "dense", "dense", "dense"]);
});

it("the settings of nomic-embed-text-v2-moe are read", () => {
  const v2 = { n_embd: 768, n_head: 12, n_inner: 3072, n_layer: 12, max_trained_positions: 2048, vocab_size: 250_048 };
  const config = configOf({ ...v2, num_experts: 8, moe_top_k: 2, moe_every_n_layers: 2, rotary_emb_base: 10_000 });
  expect(config).toMatchObject({
    architecture: "nomic-bert-moe",
    contextLength: 2048,
    rmsEps: 1e-5,
    activation: "gelu",
    numTokenTypes: 1,
    isCausal: false,
    hasBiases: true,
    routing: { scoring: "softmax", normalises: false },
    ropes: [{ base: 10_000, dim: 64, scaling: "none" }],
  });
  expect(config.layers[1]!.feedForward).toEqual({
    kind: "experts",
    count: 8,
    active: 2,
    width: 3072,
    sharedWidth: 0,
    isGated: false,
  });
  // As published, with norms and biases.
  expect(totalParameters(config) / 475_292_928).toBeCloseTo(1, 3);
});

describe("a folder is refused with", () => {
  it.each([
    [{ moe_every_n_layers: 0 }, "model_config", /moe_every_n_layers to be an integer in \[1, 1024\], got 0/],
    [{ moe_every_n_layers: undefined }, "model_config", /moe_every_n_layers to be an integer/],
    [{ moe_every_n_layers: "2" }, "model_config", /moe_every_n_layers/],
    [{ moe_top_k: 7 }, "model_config", /config.json: moe_top_k to be an integer in \[1, 6\], got 7/],
    [{ moe_top_k: undefined }, "model_config", /config.json: moe_top_k to be an integer in \[1, 6\], got 0/],
    [{ moe_top_k: -1 }, "model_config", /config.json: moe_top_k to be an integer/],
    [{ num_experts: 1e9 }, "model_config", /num_experts to be an integer in \[1, 16384\]/],
    [{ num_experts: 2.5 }, "model_config", /num_experts to be an integer/],
    [{ num_experts: -6 }, "architecture_unsupported", /expected no config.json: num_experts, got -6/],
    [{ num_experts: 0 }, "architecture_unsupported", /expected no config.json: moe_every_n_layers, got 3/],
    [{ n_inner: 0 }, "model_config", /n_inner to be an integer/],
    [
      { moe_normalize_expert_weights: true },
      "architecture_unsupported",
      /expected no config.json: moe_normalize_expert_weights/,
    ],
    [{ expert_choice_router: true }, "architecture_unsupported", /expected no config.json: expert_choice_router/],
    [{ num_shared_experts: 1 }, "architecture_unsupported", /expected no config.json: num_shared_experts, got 1/],
    [{ activation_function: "swiglu" }, "architecture_unsupported", /activation_function to be gelu, got swiglu/],
    [{ prenorm: true }, "architecture_unsupported", /expected no config.json: prenorm/],
    [{ parallel_block: true }, "architecture_unsupported", /expected no config.json: parallel_block/],
    [{ use_rms_norm: true }, "architecture_unsupported", /expected no config.json: use_rms_norm/],
    [{ rotary_emb_interleaved: true }, "architecture_unsupported", /expected no config.json: rotary_emb_interleaved/],
    [{ rotary_emb_scale_base: 512 }, "architecture_unsupported", /expected no config.json: rotary_emb_scale_base/],
    [{ rotary_emb_fraction: 0 }, "model_config", /rotary_emb_fraction to be a positive number/],
    [{ architectures: ["NomicBertForSequenceClassification"], num_labels: 1 }, "architecture_unsupported", /head/],
  ] as const)("%j", (changes, code, message) => {
    const refusal = expect.objectContaining({ code, message: expect.stringMatching(message) });
    expect(() => configOf(changes)).toThrow(refusal);
  });

  const layer = "encoder.layers.1.mlp";
  it.each([
    [`no ${layer}.router.layer.weight`, `${layer}.router.layer.weight`, undefined],
    [`no ${layer}.experts.mlp.w1`, `${layer}.experts.mlp.w1`, undefined],
    [`no ${layer}.experts.mlp.w2`, `${layer}.experts.mlp.w2`, undefined],
    ["a bias of a router", `${layer}.router.layer.bias`, bias(6)],
    ["a bias of other width", `${layer}.experts.bias`, bias(31)],
    ["no bias of a dense layer", "encoder.layers.0.mlp.fc1.bias", undefined],
    ["no bias of attention", "encoder.layers.2.attn.out_proj.bias", undefined],
    ["a second matrix that is stored transposed", `${layer}.experts.mlp.w2`, { dtype: "F32", shape: [32, 240] }],
    ["a first matrix of other width", `${layer}.experts.mlp.w1`, { dtype: "F32", shape: [240, 31] }],
  ] as const)("%s", async (_, name, tensor) => {
    const folder = changedFolder(MODEL, mkdtempSync(join(root, "changed-")), {
      tensors: ({ [name]: __, ...others }) => (tensor === undefined ? others : { ...others, [name]: tensor }),
    });
    await expect(vectorsOf(folder, [{ tokens: [5] }])).rejects.toMatchObject({
      code: "model_tensor",
      message: expect.stringContaining(name.replace(/\.weight$/, "")),
    });
  });
});

it("experts stacked in three dimensions are those of one matrix", async () => {
  const folder = changedFolder(MODEL, join(root, "stacked"), {
    tensors: (stored) =>
      Object.fromEntries(
        Object.entries(stored).map(([name, tensor]) => [
          name,
          /\.w[12]$/.test(name) ? { ...tensor, shape: [6, 40, 32] } : tensor,
        ]),
      ),
  });
  const texts = [{ tokens: [5, 6, 7, 8] }];
  expect(await vectorsOf(folder, texts)).toEqual(await vectorsOf(MODEL, texts));
  expect(openModel(folder).config.layers).toHaveLength(5);
});
