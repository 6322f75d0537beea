/**
 * Variants of the families: a copy keeps a model's special features, and is refused if its format cannot express them.
 */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { bias, changedFolder } from "../../test/helpers/changed-folder.js";
import { completionsOf, expectClose, notesOfFile, weightsOnly } from "../../test/helpers/converted.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { writeFusedFolder } from "../../test/helpers/fused-experts.js";
import { isReadOnlyFolder, MODEL_FOLDERS } from "../../test/helpers/hf-models.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import type { encodeSafetensors } from "../../test/helpers/safetensors-writer.js";
import { readGguf } from "../formats/gguf/read.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { openModel } from "../model/open-model.js";

const root = mkdtempSync(join(tmpdir(), "millrace-variants-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

type Tensors = Parameters<typeof encodeSafetensors>[0];

const architectures = MODEL_FOLDERS;

test("a GGUF file's fused experts are apart in a copy, and answer alike", async () => {
  const [original, copy] = [place(".gguf"), place(".gguf")];
  writeRandomModel(original, { architecture: "qwen3moe", seed: 6, expertLayout: "fused" });
  weightsOnly(original, copy);
  expect(await completionsOf(copy)).toEqual(await completionsOf(original));
  expect([...readGguf(copy).tensors.keys()].filter((name) => name.includes("gate_up"))).toEqual([]);
});

const LLAMA = { classes: "LlamaForCausalLM", type: "llama" };
const QWEN2 = { classes: "Qwen2ForCausalLM", type: "qwen2" };
/** Folders whose copies have another class: that of the language part, or of equal layers. */
const WRITTEN_AS: Readonly<Record<string, typeof QWEN2>> = {
  // Their layers are a llama's; transformers has no class for the first.
  internlm2: LLAMA,
  internlm3: LLAMA,
  qwen2_vl: QWEN2,
  qwen2_5_vl: QWEN2,
  glm4v: { classes: "Glm4ForCausalLM", type: "glm4" },
  glm4v_moe: { classes: "Glm4MoeForCausalLM", type: "glm4_moe" },
  smolvlm: LLAMA,
  internvl: { classes: "Qwen3ForCausalLM", type: "qwen3" },
  qwen3_vl: { classes: "Qwen3ForCausalLM", type: "qwen3" },
  qwen3_vl_moe: { classes: "Qwen3MoeForCausalLM", type: "qwen3_moe" },
};

describe("a folder", () => {
  // The llama's rope has too few frequencies to derive its settings from them.
  const written = architectures.filter((name) => name !== "llama" && !isReadOnlyFolder(name));
  test.each(written)("of %s has the same class as a folder", (name) => {
    const folder = place();
    weightsOnly(fixture(`hf/${name}`), folder);
    const classOf = (path: string) => {
      const config = JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as Record<string, object>;
      const { architectures: classes, model_type: type } = { ...config, ...config.text_config };
      // A wrapper with an image tower becomes its language model.
      return { classes: String(classes).replace("ForConditionalGeneration", "ForCausalLM"), type };
    };
    expect(classOf(folder)).toEqual(WRITTEN_AS[name] ?? classOf(fixture(`hf/${name}`)));
  });

  test.each([
    ["qwen3moe", ""],
    ["mixtral", ""],
    ["mixtral", ".gguf"],
  ])("of %s with fused experts becomes a copy ('%s') that has them apart, and answers alike", async (name, suffix) => {
    const [fused, copy] = [writeFusedFolder(fixture(`hf/${name}`), place()), place(suffix)];
    weightsOnly(fused, copy);
    expectClose(await completionsOf(copy), await completionsOf(fused));
    const names = suffix === "" ? readHfFolder(copy).files.tensors : readGguf(copy).tensors;
    expect([...names.keys()].filter((each) => each.includes("gate_up"))).toEqual([]);
  });

  test.each([
    ["mistral", "q_proj", 48],
    ["mixtral", "k_proj", 16],
    ["phi3", "qkv_proj", 64],
    ["qwen3", "o_proj", 32],
  ])("of %s with biases (%s) that its class cannot have, or of some parts alone, is refused", (name, part, length) => {
    const extra = Object.fromEntries([0, 1].map((i) => [`model.layers.${i}.self_attn.${part}.bias`, bias(length)]));
    const folder = changedFolder(fixture(`hf/${name}`), place(), { tensors: (stored) => ({ ...stored, ...extra }) });
    expect(() => weightsOnly(folder, place())).toThrow(/expected (?:no )?biases (?:that|of all of)/);
    expect(() => weightsOnly(folder, place(".gguf"))).not.toThrow();
  });

  test("of granite with biases in one layer alone is refused, and one of qwen3moe with attention's keeps them", async () => {
    const [granite, qwen, copy] = [place(), place(), place()];
    const tensors = ({ "model.layers.1.self_attn.o_proj.bias": _, ...others }: Tensors) => others;
    changedFolder(fixture("hf/granite"), granite, { tensors });
    expect(() => weightsOnly(granite, place())).toThrow(/of all of attn_q, .* or of none, got 7 of 8/);
    const sizes = { q_proj: 48, k_proj: 24, v_proj: 24, o_proj: 32 };
    const extra = [0, 1, 2].flatMap((i) =>
      Object.entries(sizes).map(([part, length]) => [`model.layers.${i}.self_attn.${part}.bias`, bias(length)]),
    );
    changedFolder(fixture("hf/qwen3moe"), qwen, {
      tensors: (stored) => ({ ...stored, ...Object.fromEntries(extra) }),
    });
    weightsOnly(qwen, copy);
    expect(JSON.parse(readFileSync(join(copy, "config.json"), "utf8"))).toMatchObject({ attention_bias: true });
    expectClose(await completionsOf(copy), await completionsOf(qwen));
  });

  test.each([
    ["qwen3moe", { mlp_only_layers: [] }, [/scales the weights of a token's experts to a sum of one for qwen3moe/]],
    ["qwen3moe", { mlp_only_layers: [], norm_topk_prob: true }, []],
    ["mixtral", {}, []],
    ["qwen2_moe", { norm_topk_prob: true }, [/does not scale the weights of a token's experts .* for qwen2moe/]],
    ["olmoe", {}, []],
    ["granitemoeshared", {}, []],
    ["glm4_moe", { norm_topk_prob: false }, []],
    ["lfm2_moe", {}, []],
    ["lfm2_moe", { norm_topk_prob: false }, [/to a sum of one for lfm2moe/]],
    ["lfm2_moe", { routed_scaling_factor: 1.3 }, [/leaves out the factor of experts' weights for lfm2moe/]],
    ["exaone4", {}, [/has no window and a rope in every layer for exaone4/]],
    [
      "exaone4",
      { layer_types: ["full_attention", ...Array(3).fill("sliding_attention")] },
      [/other layers/, /no window/],
    ],
    ["exaone4", { sliding_window: 256 }, [/no window/]],
    ["exaone4_small", {}, []],
    ["ernie4_5_moe", {}, []],
    ["ernie4_5_moe_steps", {}, [/expects experts in every layer behind the first/]],
    ["gptoss", {}, [/rounds YaRN's range to whole frequencies for gpt-oss/]],
    ["gptoss", { rope_scaling: { rope_type: "default" } }, []],
    ["olmo3", {}, []],
    ["olmo3", { rope_parameters: { full_attention: { rope_theta: 1e4 } } }, [/gives windows the model's rope base/]],
  ] as const)("of %s with %j is noted where llama.cpp computes its file otherwise", (name, settings, notes) => {
    const apart = ({ "model.layers.0.mlp.gate.weight": gate, ...others }: Tensors): Tensors => {
      const experts = Object.entries(others).filter(([each]) => each.includes("layers.0.mlp.experts."));
      const layer1 = experts.map(([each, tensor]) => [each.replace("layers.0.", "layers.1."), tensor] as const);
      const dense = Object.entries(others).filter(([each]) => !each.includes("layers.1.mlp."));
      const routers = { "model.layers.0.mlp.gate.weight": gate!, "model.layers.1.mlp.gate.weight": gate! };
      return { ...Object.fromEntries([...dense, ...layer1]), ...routers };
    };
    const tensors = name === "qwen3moe" ? { tensors: apart } : {};
    const folder = changedFolder(fixture(`hf/${name}`), place(), { settings, ...tensors });
    expect(notesOfFile(folder, place(".gguf"))).toEqual(notes.map((note) => expect.stringMatching(note)));
  });

  test.each([
    ["olmo3", "1010", 2, []],
    ["olmo3", "1110", undefined, []],
    ["olmo3", "1001", "list", [/in other layers for olmo2/]],
    ["gemma2", "01", "list", [/in other layers for gemma2/]],
    ["gemma2", "00", 1, []],
  ] as const)("of %s with windows in layers %s becomes a file that says so", async (name, flags, pattern, notes) => {
    const layer_types = Array.from(flags, (flag) => (flag === "1" ? "sliding_attention" : "full_attention"));
    const settings = { layer_types, max_position_embeddings: 8192 };
    const folder = changedFolder(fixture(`hf/${name}`), place(), { settings });
    const file = place(".gguf");
    expect(notesOfFile(folder, file)).toEqual(notes.map((note) => expect.stringMatching(note)));
    const { metadata } = readGguf(file);
    const stated = metadata.get(`${openModel(folder).config.architecture}.attention.sliding_window_pattern`);
    expect(stated).toEqual(pattern === "list" ? Array.from(flags, (flag) => flag === "1") : pattern);
    expectClose(await completionsOf(file), await completionsOf(folder));
  });

  test("of olmo3 keeps a rope of its own for windows as a folder, and a file keeps its base", async () => {
    const full_attention = { rope_type: "yarn", rope_theta: 1e4, factor: 4, original_max_position_embeddings: 64 };
    const sliding = { rope_type: "default", rope_theta: 3e4 };
    const changed = (sliding_attention: object) =>
      changedFolder(fixture("hf/olmo3"), place(), {
        settings: { rope_parameters: { full_attention, sliding_attention } },
      });
    const [plain, folder, file] = [changed(sliding), place(), place(".gguf")];
    weightsOnly(plain, folder);
    weightsOnly(plain, file);
    const completions = await completionsOf(plain);
    expect(await completionsOf(folder)).toEqual(completions);
    expectClose(await completionsOf(file), completions);
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
    expect(config).toMatchObject({ rope_theta: 1e4, rope_parameters: { sliding_attention: sliding } });
    const scaled = changed({ ...sliding, rope_type: "linear", factor: 2 });
    expect(() => weightsOnly(scaled, place())).not.toThrow();
    expect(() => weightsOnly(scaled, place(".gguf"))).toThrow(/can say ropes/);
  });

  test("of MiniMax M2 states its experts under the keys of its class", () => {
    const [file, folder] = [place(".gguf"), place()];
    weightsOnly(fixture("hf/minimax_m2"), file);
    weightsOnly(file, folder);
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
    expect(config).toMatchObject({ num_local_experts: 6, num_experts_per_tok: 2, intermediate_size: 20 });
    expect(config).not.toHaveProperty("n_routed_experts");
  });

  test("with a tensor that nothing computes is refused", () => {
    const name = "model.layers.0.mlp.gate.bias";
    const folder = changedFolder(fixture("hf/qwen3moe"), place(), {
      tensors: (stored) => ({ ...stored, [name]: bias(7) }),
    });
    for (const suffix of ["", ".gguf"]) {
      expect(() => weightsOnly(folder, place(suffix))).toThrow(`expected tensors that are computed, got ${name} too`);
    }
  });

  test("of qwen3moe names the number of its experts as transformers 4 does, which knows no other name", () => {
    const folder = place();
    weightsOnly(fixture("hf/qwen3moe"), folder);
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
    expect(config).toMatchObject({ num_experts: 7, num_experts_per_tok: 3 });
    expect(config).not.toHaveProperty("num_local_experts");
  });
});
