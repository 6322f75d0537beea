/**
 * A tensor of the language model that nothing computes is an error in both formats, where it is served and where it is
 * copied.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { bias, changedFolder } from "../../test/helpers/changed-folder.js";
import { completionsOf, weightsOnly } from "../../test/helpers/converted.js";
import { writeEncoderGguf } from "../../test/helpers/encoder-gguf.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { vectorsOf } from "../../test/helpers/pooled-vectors.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { encodeSafetensors } from "../../test/helpers/safetensors-writer.js";
import { readGguf } from "../formats/gguf/read.js";
import { u32 } from "../formats/gguf/write.js";
import { readSafetensors } from "../formats/safetensors/read.js";
import { openModel } from "./open-model.js";

const root = mkdtempSync(join(tmpdir(), "millrace-other-tensors-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = "") => join(root, `${numPlaces++}${suffix}`);

const refusal = (code: string, name: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(`tensors that are computed, got ${name}`) });

const withTensor = (model: string, name: string, value = 1) => changed(`hf/${model}`, name, value);
const changed = (model: string, name: string, value = 1) =>
  changedFolder(fixture(model), place(), { tensors: (stored) => ({ ...stored, [name]: bias(7, value) }) });

describe("a folder", () => {
  test("of GPT-2 as OpenAI published it, without a prefix and with masks, answers alike", async () => {
    const mask = { dtype: "F32", shape: [1, 1, 2, 2] } as const;
    const folder = changedFolder(fixture("hf/gpt2"), place(), {
      tensors: (stored) => ({
        ...Object.fromEntries(
          Object.entries(stored).map(([name, tensor]) => [name.replace("transformer.", ""), tensor]),
        ),
        "h.0.attn.bias": mask,
      }),
    });
    expect(await completionsOf(folder)).toEqual(await completionsOf(fixture("hf/gpt2")));
  });

  test.each([
    ["qwen3moe", "model.layers.0.mlp.gate.bias"],
    ["qwen3moe", "model.layers.0.mlp.gate.e_score_correction_bias"],
    ["mixtral", "model.layers.1.block_sparse_moe.experts.3.w1.bias"],
    ["llama", "model.layers.0.self_attn.sinks"],
    ["llama", "model.layers.0.input_layernorm.bias"],
    ["llama", "model.norm.bias"],
    ["llama", "model.layers.2.input_layernorm.weight"],
    ["olmo2", "model.layers.0.input_layernorm.weight"],
    ["mistral3", "language_model.model.layers.0.self_attn.q_norm.bias"],
    ["gptoss", "model.layers.0.mlp.experts.gate_up_proj"],
    ["gptoss", "model.layers.0.mlp.experts.up_proj_bias"],
    ["gptoss_plain", "model.layers.0.mlp.experts.down_proj_scales"],
    ["glm4_moe", "model.layers.1.mlp.gate.bias"],
    ["glm4_moe", "model.layers.1.mlp.shared_expert_gate.weight"],
    ["glm4_moe", "model.layers.0.mlp.gate.e_score_correction_bias"],
    ["deepseek_v2_lite", "model.layers.0.self_attn.q_a_proj.weight"],
    ["gemma4", "model.language_model.layers.1.self_attn.v_proj.weight"],
    ["gemma4_e", "model.layers.3.self_attn.v_norm.weight"],
    ["gemma4_e", "model.per_layer_projection_norm.bias"],
    ["gemma4_moe", "model.layers.1.router.proj.bias"],
  ])("of %s with %s is refused", async (model, name) => {
    await expect(completionsOf(withTensor(model, name))).rejects.toEqual(refusal("model_tensor", name));
  });

  test.each([
    ["mistral3", "vision_tower.layers.0.bias"],
    ["llama", "model.layers.0.self_attn.rotary_emb.inv_freq"],
    ["qwen3", "lm_head.weight"],
    // Of layers that read the keys of others.
    ["gemma4_e", "model.layers.4.self_attn.k_proj.weight"],
    ["gemma4_e", "model.layers.5.self_attn.k_norm.weight"],
  ])("of %s with %s, which changes nothing, is served as without it", async (model, name) => {
    expect(await completionsOf(withTensor(model, name))).toEqual(await completionsOf(fixture(`hf/${model}`)));
  });

  test("with a bias of zeros, which some quantisers give every layer, is served as without it", async () => {
    const folder = withTensor("qwen3moe", "model.layers.0.mlp.experts.0.up_proj.bias", 0);
    expect(await completionsOf(folder)).toEqual(await completionsOf(fixture("hf/qwen3moe")));
  });
});

describe("beside a quantised matrix", () => {
  const beside = (format: string, name: string) => changed(`hf-quantized/${format}`, name);
  const layer = "model.layers.0.mlp.up_proj";

  test.each([
    ["awq", `${layer}.pre_quant_scale`],
    ["fp8-tensor", `${layer}.weight_scale_2`],
    ["pack-symmetric", `${layer}.weight_global_scale`],
    ["gptq", `${layer}.qweight.extra`],
  ])("in a folder of %s, %s is refused", async (format, name) => {
    await expect(completionsOf(beside(format, name))).rejects.toEqual(refusal("model_tensor", name));
  });
});

describe("blocks behind the layers that draft later tokens", () => {
  const drafting = (model: string, numDrafting: number, layer: number) =>
    changedFolder(fixture(`hf/${model}`), place(), {
      settings: { num_nextn_predict_layers: numDrafting },
      tensors: (stored) => ({ ...stored, [`model.layers.${layer}.enorm.weight`]: bias(7) }),
    });

  test.each([
    "glm4_moe",
    "deepseek_v3",
  ])("change nothing in a folder of %s that says how many there are", async (name) => {
    expect(await completionsOf(drafting(name, 1, 3))).toEqual(await completionsOf(fixture(`hf/${name}`)));
  });

  test.each([
    ["glm4_moe", 0, 3],
    ["glm4_moe", 1, 4],
    ["deepseek_v3", 0, 3],
    ["glm4_moe", 1, 2],
    ["llama", 1, 2],
  ])("are refused in a folder of %s that says there are %i, with layer %i", async (model, numDrafting, layer) => {
    const name = `model.layers.${layer}.enorm.weight`;
    await expect(completionsOf(drafting(model, numDrafting, layer))).rejects.toEqual(refusal("model_tensor", name));
  });

  test("change nothing in a GGUF file of an architecture that has them, and are refused in others", async () => {
    const written = (architecture: "glm4moe" | "llama", layers: number, numDrafting: number) => {
      const path = place(".gguf");
      const metadata = { [`${architecture}.nextn_predict_layers`]: u32(numDrafting) };
      writeRandomModel(path, { architecture, seed: 1, layers, metadata });
      return path;
    };
    const [longer, shorter] = [written("glm4moe", 3, 1), place(".gguf")];
    weightsOnly(longer, shorter);
    expect(readGguf(shorter).metadata.number("glm4moe.block_count")).toBe(2);
    expect(await completionsOf(longer)).toEqual(await completionsOf(shorter));
    expect(() => openModel(written("llama", 3, 1))).toThrow(/expected no llama\.nextn_predict_layers, got 1/);
  });
});

test("a GGUF file with a tensor of another name is refused, also where the engine does without the tensor", async () => {
  const path = place(".gguf");
  writeRandomModel(path, { architecture: "qwen3", seed: 1 });
  const bytes = readFileSync(path);
  bytes.write("attn_x_norm", bytes.indexOf("blk.1.attn_q_norm.weight") + "blk.1.".length);
  writeFileSync(path, bytes);
  await expect(completionsOf(path)).rejects.toEqual(refusal("gguf_tensor", "blk.1.attn_x_norm.weight too"));
});

describe("an encoder", () => {
  const TEXTS = [{ tokens: [5, 6, 7, 8] }];
  const withOther = (model: string, name: string) => changed(`hf-encoders/${model}`, name);

  test.each([
    ["bert", "encoder.layer.0.attention.self.distance_embedding.weight"],
    ["bert", "embeddings.task_embeddings.weight"],
    ["bert_rank", "bert.encoder.layer.1.crossattention.self.query.weight"],
    ["xlm_roberta_rank", "roberta.encoder.layer.0.output.adapter.bias"],
    ["nomic_bert", "encoder.layers.0.mlp.router.weight"],
    ["nomic_bert", "emb_ln.scale"],
    ["nomic_bert_moe", "encoder.layers.1.mlp.fc1.weight"],
    ["nomic_bert_moe", "encoder.layers.1.mlp.experts.mlp.v1"],
    ["modernbert", "layers.1.attn.q_norm.weight"],
    ["modernbert", "final_norm.scale"],
    ["gemma_embedding", "layers.0.input_layernorm.bias"],
  ])("in a folder of %s with %s is refused", async (model, name) => {
    await expect(vectorsOf(withOther(model, name), TEXTS)).rejects.toEqual(refusal("model_tensor", name));
  });

  test.each([
    ["bert", "embeddings.position_ids"],
    ["bert", "cls.predictions.bias"],
    ["bert_rank", "bert.embeddings.token_type_ids"],
    ["xlm_roberta", "lm_head.bias"],
    ["nomic_bert", "encoder.layers.0.attn.rotary_emb.inv_freq"],
    ["modernbert", "head.norm.weight"],
    ["modernbert", "decoder.bias"],
  ])("in a folder of %s with %s, which no vector depends on, is served as without it", async (model, name) => {
    expect(await vectorsOf(withOther(model, name), TEXTS)).toEqual(
      await vectorsOf(fixture(`hf-encoders/${model}`), TEXTS),
    );
  });

  test.each([
    ["bert", "blk.0.attn_output_norm.bias", "blk.0.attn_output_norm.scale"],
    ["bert_rank", "blk.0.attn_output_norm.bias", "blk.0.attn_output_norm.scale"],
    ["gemma_embedding", "dense_3.weight", "dense_4.weight"],
  ])("in a file of %s with %s by another name is refused", async (model, name, other) => {
    const path = place(".gguf");
    writeEncoderGguf(fixture(`hf-encoders/${model}`), path, {});
    const bytes = readFileSync(path);
    bytes.write(other.slice(0, name.length), bytes.indexOf(name));
    writeFileSync(path, bytes);
    await expect(vectorsOf(path, TEXTS)).rejects.toEqual(refusal("gguf_tensor", other.slice(0, name.length)));
  });

  test("in a file with the head of another pooling is served as without it", async () => {
    const [path, ranked] = [place(".gguf"), place(".gguf")];
    writeEncoderGguf(fixture("hf-encoders/bert_rank"), path, { "bert.pooling_type": u32(2) });
    writeEncoderGguf(fixture("hf-encoders/bert_rank"), ranked);
    const [[vector], [score]] = [await vectorsOf(path, TEXTS), await vectorsOf(ranked, TEXTS)];
    expect(vector).toHaveLength(32);
    expect(score).toHaveLength(1);
  });

  test("in a file with layers behind its pooling passes through them", async () => {
    const path = place(".gguf");
    writeEncoderGguf(fixture("hf-encoders/gemma_embedding"), path);
    expect((await vectorsOf(path, TEXTS))[0]).toHaveLength(24);
  });
});

describe("a tensor without which a model is another one", () => {
  const without = (model: string, name: string) =>
    changedFolder(fixture(`hf-encoders/${model}`), place(), {
      tensors: ({ [name]: missing, ...others }) => {
        expect(missing).toBeDefined();
        return others;
      },
    });
  const gap = (code: string, name: string) =>
    expect.objectContaining({ code, message: expect.stringContaining(`${name} of shape`) });

  test.each([
    ["bert", "embeddings.LayerNorm.bias", "token_embd_norm.bias"],
    ["bert", "encoder.layer.1.attention.self.key.bias", "blk.1.attn_k.bias"],
    ["bert", "encoder.layer.0.output.LayerNorm.bias", "blk.0.layer_output_norm.bias"],
    ["xlm_roberta_rank", "roberta.encoder.layer.0.output.dense.bias", "blk.0.ffn_down.bias"],
    ["bert_rank", "bert.pooler.dense.bias", undefined],
    ["bert_rank", "classifier.bias", undefined],
    ["gemma_embedding", "layers.1.self_attn.q_norm.weight", "blk.1.attn_q_norm.weight"],
    ["gemma_embedding", "layers.0.post_feedforward_layernorm.weight", "blk.0.post_ffw_norm.weight"],
    ["qwen3", "layers.1.self_attn.k_norm.weight", undefined],
  ])("is missed: of %s %s", async (model, name, inFile) => {
    const folder = without(model, name);
    await expect(vectorsOf(folder, [{ tokens: [5] }])).rejects.toEqual(gap("model_tensor", name));
    if (inFile === undefined) return;
    const path = place(".gguf");
    writeEncoderGguf(folder, path);
    const missing = expect.objectContaining({ code: "gguf_tensor", message: expect.stringContaining(inFile) });
    await expect(vectorsOf(path, [{ tokens: [5] }])).rejects.toEqual(missing);
  });

  test("is missed where it is the bias of a layer behind the pooling, and refused where the layer has none", async () => {
    const dense = (isBiased: boolean) => {
      const folder = place();
      cpSync(fixture("hf-encoders/gemma_embedding"), folder, { recursive: true });
      const path = join(folder, "2_Dense/config.json");
      writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), bias: isBiased }));
      return folder;
    };
    await expect(vectorsOf(dense(true), [{ tokens: [5] }])).rejects.toEqual(gap("model_tensor", "linear.bias"));
    const folder = dense(false);
    const own = join(folder, "2_Dense/model.safetensors");
    const { shards, tensors } = readSafetensors(join(folder, "2_Dense"));
    const { byteOffset, byteLength, ...weight } = tensors.get("linear.weight")!;
    const data = readFileSync(shards[0]!.path).subarray(byteOffset, byteOffset + byteLength);
    writeFileSync(own, encodeSafetensors({ "linear.weight": { ...weight, data }, "linear.bias": bias(48) }));
    await expect(vectorsOf(folder, [{ tokens: [5] }])).rejects.toThrow(/layer dense_2 without a bias/);
  });
});
