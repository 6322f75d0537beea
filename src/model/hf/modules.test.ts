/** What stands around a model in modules.json: what is read, and what is refused. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { chooseModel } from "../../formats/hub/choose.js";
import { tasksOf } from "../description/servable.js";
import { openModel } from "../open-model.js";

let place: string;
let folder: string;
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "millrace-modules-"));
  folder = join(place, "model");
});
afterEach(() => rmSync(place, { recursive: true }));

const write = (name: string, json: unknown) => writeFileSync(join(folder, name), JSON.stringify(json));
const copyOf = (name: string, to = folder) => {
  cpSync(fixture(`hf-encoders/${name}`), to, { recursive: true });
  folder = to;
};
const module = (type: string, path = "") => ({ idx: 0, name: "0", path, type: `sentence_transformers.models.${type}` });
const writeTypes = (...types: string[]) =>
  write(
    "modules.json",
    types.map((type) => module(type)),
  );

describe("a folder", () => {
  it.each([
    [{ pooling_mode_cls_token: true }, "cls"],
    [{ pooling_mode_mean_tokens: true, pooling_mode_cls_token: false }, "mean"],
    [{ pooling_mode_lasttoken: true }, "last"],
    [{ pooling_mode: "lasttoken" }, "last"],
  ])("pools by %j: %s", (config, pooling) => {
    copyOf("bert");
    write("1_Pooling/config.json", config);
    expect(openModel(folder).config.pooling).toBe(pooling);
  });

  it.each<[string, () => void, RegExp]>([
    ["a pooling by the maximum", () => write("1_Pooling/config.json", { pooling_mode_max_tokens: true }), /max_tokens/],
    [
      "two poolings at once",
      () => write("1_Pooling/config.json", { pooling_mode_max_tokens: true, pooling_mode_mean_tokens: true }),
      /max_tokens, pooling_mode_mean/,
    ],
    ["no pooling", () => write("1_Pooling/config.json", {}), /got none/],
    ["a pooling without prompts", () => write("1_Pooling/config.json", { include_prompt: false }), /include_prompt/],
    ["another module", () => write("modules.json", [module("WeightedLayerPooling")]), /got WeightedLayerPooling/],
    ["no module", () => write("modules.json", []), /got none/],
    [
      "a module outside the folder",
      () => write("modules.json", [module("Transformer"), module("Pooling", "../other")]),
      /within the model's folder/,
    ],
    [
      "a module elsewhere",
      () => write("modules.json", [module("Transformer"), module("Pooling", "/etc")]),
      /within the model's folder/,
    ],
    [
      "a model in another folder",
      () => write("modules.json", [module("Transformer", "0_Transformer")]),
      /path of the Transformer to be the model's folder/,
    ],
    [
      "layers behind normalised vectors",
      () => writeTypes("Transformer", "Pooling", "Normalize", "Dense"),
      /got Transformer, Pooling, Normalize, Dense/,
    ],
    [
      "two poolings, one after the other",
      () => writeTypes("Transformer", "Pooling", "Pooling"),
      /got Transformer, Pooling, Pooling/,
    ],
    [
      "a score of pooled vectors",
      () => writeTypes("Transformer", "Pooling", "LogitScore"),
      /got Transformer, Pooling, LogitScore/,
    ],
    [
      "thousands of layers",
      () => writeTypes("Transformer", "Pooling", ...new Array<string>(5000).fill("Dense")),
      /up to eight of Dense/,
    ],
    ["no list", () => write("modules.json", {}), /JSON array/],
    ["no JSON", () => writeFileSync(join(folder, "modules.json"), "{"), /expected JSON/],
    ["an entry that is no module", () => write("modules.json", [5]), /an object/],
    ["a length of nothing", () => write("sentence_bert_config.json", { max_seq_length: 0 }), /max_seq_length/],
  ])("with %s is refused", (_, change, message) => {
    copyOf("bert");
    change();
    expect(() => openModel(folder)).toThrow(message);
  });

  it("has the context of its longest text, where that is shorter than the model's", () => {
    copyOf("bert");
    write("sentence_bert_config.json", { max_seq_length: 20 });
    expect(openModel(folder).config.contextLength).toBe(20);
    write("sentence_bert_config.json", { max_seq_length: 1000 });
    expect(openModel(folder).config.contextLength).toBe(48);
  });

  it("without modules pools by the mean where it holds an encoder, and says nothing where it does not", () => {
    copyOf("bert");
    rmSync(join(folder, "modules.json"));
    expect(openModel(folder).config.pooling).toBe("mean");
    rmSync(folder, { recursive: true });
    copyOf("qwen3");
    rmSync(join(folder, "modules.json"));
    expect(openModel(folder).config.pooling).toBeUndefined();
  });
});

describe("layers behind the pooling", () => {
  it.each<[string, object, RegExp]>([
    ["other inputs than the model's width", { in_features: 31, out_features: 48 }, /in_features of 32 .* got 31/],
    ["no size", { in_features: 32 }, /out_features to be an integer/],
    ["an unknown activation", { in_features: 32, out_features: 48, activation_function: "torch.nn.SiLU" }, /SiLU/],
  ])("of %s are refused", (_, config, message) => {
    copyOf("gemma_embedding");
    write("2_Dense/config.json", config);
    expect(() => openModel(folder)).toThrow(message);
  });
});

describe("a Qwen3-Reranker of the first releases", () => {
  it("is known by its name and answers yes or no", () => {
    copyOf("qwen3_answers", join(place, "Qwen3-Reranker-0.6B"));
    rmSync(join(folder, "modules.json"));
    expect(() => openModel(folder)).toThrow(/a tokenizer.json with the tokens yes and no/);
    write("tokenizer.json", { model: { vocab: { yes: 17, no: 41 } } });
    const { config } = openModel(folder);
    expect(tasksOf(config)).toEqual(["generate", "rerank"]);
    expect(config.head).toMatchObject({ scoring: "softmax", layers: [{ name: "token_embd", rows: [41, 17] }] });
    write("tokenizer.json", { model: { vocab: { yes: 17, no: 96 } } });
    expect(() => openModel(folder)).toThrow(/answers below 96, got 17 and 96/);
  });

  it("is not any qwen3 in a folder of rerankers", () => {
    copyOf("qwen3_answers", join(place, "rerankers/Qwen3-0.6B"));
    rmSync(join(folder, "modules.json"));
    expect(tasksOf(openModel(folder).config)).toEqual(["generate", "embed"]);
  });

  it.each([
    ["", -1],
    ["no", undefined],
  ])("refuses answers that are no tokens: %s", (_, falseId) => {
    copyOf("qwen3_answers");
    write("1_LogitScore/config.json", { true_token_id: 17, false_token_id: falseId });
    expect(() => openModel(folder)).toThrow(/false_token_id to be a token id/);
  });
});

it("a head of several labels is refused", () => {
  copyOf("bert_rank");
  const { raw } = { raw: JSON.parse(JSON.stringify({ model_type: "bert" })) as object };
  mkdirSync(folder, { recursive: true });
  write("config.json", {
    ...raw,
    architectures: ["BertForSequenceClassification"],
    hidden_size: 32,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    intermediate_size: 40,
    max_position_embeddings: 48,
  });
  expect(() => openModel(folder)).toThrow(/one label, the score of a pair, got 2/);
});

it("a model of the hub comes with its modules", () => {
  const names = [
    "model.safetensors",
    "config.json",
    "modules.json",
    "1_Pooling/config.json",
    "2_Dense/model.safetensors",
    "2_Dense/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "onnx/model.onnx",
    "README.md",
    "openvino/config.json",
  ];
  expect([...chooseModel(names, undefined, "here").files].sort()).toEqual(names.slice(0, 8).sort());
});
