/**
 * Encoders in GGUF files: the same vectors, bit for bit, as from the folder that the file was made of; and damaged
 * files are refused or bounded.
 */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bias, changedFolder } from "../../../test/helpers/changed-folder.js";
import { writeEncoderGguf } from "../../../test/helpers/encoder-gguf.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { HOSTILE_VALUES } from "../../../test/helpers/hostile-metadata.js";
import { type PooledText, vectorsOf } from "../../../test/helpers/pooled-vectors.js";
import { MillraceError } from "../../core/errors.js";
import { readGguf } from "../../formats/gguf/read.js";
import { arr, bool, u32, type WritableValue } from "../../formats/gguf/write.js";
import { attentionMixers } from "../description/servable.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-encoder-gguf-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "encoder.gguf");
const copy = (name: string, changes: Record<string, WritableValue> = {}, keeps?: (tensor: string) => boolean) =>
  writeEncoderGguf(fixture(`hf-encoders/${name}`), path, changes, keeps);

/**
 * Every third layer of modern-bert sees everything, and every sixth of gemma-embedding, whatever a folder's own pattern
 * is.
 */
const NAMES = [
  "bert",
  "bert_rank",
  "xlm_roberta",
  "xlm_roberta_rank",
  "nomic_bert",
  "nomic_bert_moe",
  "modernbert",
  "modernbert_older",
];

describe("a GGUF file gives the bits of its folder", () => {
  it.each(NAMES)("%s", async (name) => {
    copy(name);
    const model = fixture(`hf-encoders/${name}`);
    const texts = JSON.parse(readFileSync(join(model, "expected.json"), "utf8")) as PooledText[];
    expect(await vectorsOf(path, texts)).toEqual(await vectorsOf(model, texts));
  });
});

it("nomic-bert-moe has experts in the second of so many layers, and without their common bias it is that of a folder whose bias is zero", async () => {
  const model = fixture("hf-encoders/nomic_bert_moe");
  copy("nomic_bert_moe", {}, (tensor) => !tensor.endsWith("ffn_exps.bias"));
  const { config } = openModel(path);
  const dense = { kind: "dense", width: 40, isGated: false };
  const experts = { kind: "experts", count: 6, active: 2, width: 40, sharedWidth: 0, isGated: false };
  expect(config.layers.map(({ feedForward }) => feedForward)).toEqual([dense, experts, dense, dense, experts]);
  expect(config).toMatchObject({ activation: "gelu", routing: { normalises: false, scoring: "softmax" } });
  const zeroed = changedFolder(model, join(folder, "zeroed"), {
    tensors: (stored) =>
      Object.fromEntries(
        Object.entries(stored).map(([name, tensor]) => [name, name.endsWith("experts.bias") ? bias(32, 0) : tensor]),
      ),
  });
  const texts = JSON.parse(readFileSync(join(model, "expected.json"), "utf8")) as PooledText[];
  const vectors = await vectorsOf(path, texts);
  expect(vectors).toEqual(await vectorsOf(zeroed, texts));
  expect(vectors).not.toEqual(await vectorsOf(model, texts));
});

it("gemma-embedding has windows, two ropes and further layers", () => {
  copy("gemma_embedding");
  const { config } = openModel(path);
  expect(attentionMixers(config).map((mixer) => [mixer.window, mixer.rope])).toEqual([
    [15, 1],
    [15, 1],
    [15, 1],
  ]);
  expect(config.head?.layers).toMatchObject([
    { name: "dense_2", outputs: 48 },
    { name: "dense_3", outputs: 24 },
  ]);
  expect(config).toMatchObject({ isCausal: false, pooling: "mean", embeddingScale: Math.fround(Math.sqrt(32)) });
});

it("the pattern of windows is the file's, and a number counts from the first layer of modern-bert on", () => {
  const windows = (name: string, key: string, pattern?: WritableValue) => {
    copy(name, pattern === undefined ? {} : { [`${key}.attention.sliding_window_pattern`]: pattern });
    return attentionMixers(openModel(path).config).map((mixer) => [mixer.window, mixer.rope]);
  };
  const [local, all] = [
    [13, 1],
    [0, 0],
  ] as const;
  expect(windows("modernbert", "modern-bert")).toEqual([all, local, local, all]);
  expect(windows("modernbert", "modern-bert", u32(2))).toEqual([all, local, all, local]);
  const listed = arr("bool", [true, false, false, true]);
  expect(windows("modernbert", "modern-bert", listed)).toEqual([local, all, all, local]);
  const ofGemma = windows("gemma_embedding", "gemma-embedding", u32(3));
  expect(ofGemma.map(([window]) => window)).toEqual([15, 15, 0]);
});

it.each<[string, Record<string, WritableValue>, RegExp]>([
  ["bert", { "bert.attention.causal": bool(true) }, /causal to be false/],
  ["bert", { "bert.pooling_type": u32(0) }, /pooling_type to be 1/],
  ["bert", { "bert.pooling_type": u32(4) }, /cls.weight/],
  ["modernbert_rank", {}, /rank head without a norm/],
  ["nomic_bert", { "nomic-bert.expert_count": u32(8) }, /no nomic-bert.expert_count/],
  ["nomic_bert_moe", { "nomic-bert-moe.expert_weights_norm": bool(true) }, /weigh a token's experts among all/],
  ["nomic_bert_moe", { "nomic-bert-moe.expert_gating_func": u32(3) }, /weigh a token's experts among all/],
  ["nomic_bert_moe", { "nomic-bert-moe.expert_gating_func": u32(2) }, /expert_gating_func to be one of/],
  ["nomic_bert_moe", { "nomic-bert-moe.expert_used_count": u32(7) }, /expert_used_count to be an integer in \[1, 6\]/],
  ["nomic_bert_moe", { "nomic-bert-moe.expert_shared_count": u32(1) }, /without a part that every token passes/],
  ["nomic_bert_moe", { "nomic-bert-moe.moe_every_n_layers": u32(0) }, /moe_every_n_layers to be an integer/],
  ["bert", { "bert.attention.value_length": u32(4) }, /value heads as wide/],
])("%s with %j is refused", (name, changes, message) => {
  copy(name, changes);
  expect(() => openModel(path)).toThrow(message);
});

it.each(["cls", "cls.output"])("a rank head of %s alone is refused: it lacks BERT's pooler", (kept) => {
  copy("bert_rank", {}, (tensor) => !tensor.startsWith("cls.") || /^(.*)\.\w+$/.exec(tensor)![1] === kept);
  expect(() => openModel(path)).toThrow(new RegExp(`got ${kept} alone`));
});

describe.each([
  "bert",
  "nomic_bert",
  "nomic_bert_moe",
  "modernbert",
  "gemma_embedding",
])("a hostile value under any key of %s", (name) => {
  it("is refused, or within bounds", async () => {
    copy(name);
    const keys = [...readGguf(path).metadata.keys()].filter((key) => !key.startsWith("general."));
    let numRefused = 0;
    for (const key of keys) {
      for (const value of HOSTILE_VALUES) {
        copy(name, { [key]: value });
        try {
          const { config, tensors } = openModel(path);
          expect(config.contextLength).toSatisfy(Number.isSafeInteger);
          expect(config.rmsEps).toBeGreaterThan(0);
          for (const mixer of attentionMixers(config)) expect(mixer.numHeads % mixer.numKvHeads).toBe(0);
          expect(tensors().has("token_embd.weight")).toBe(true);
        } catch (thrown) {
          if (!(thrown instanceof MillraceError)) throw thrown;
          expect(thrown.code).toMatch(/^(gguf_|architecture_unsupported)/);
          numRefused++;
        }
      }
    }
    expect(numRefused).toBeGreaterThan(keys.length);
  });
});
