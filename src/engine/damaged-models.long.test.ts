/**
 * Damaged models of the families whose files have many parts: sentence-transformers' folders, encoders in GGUF files,
 * mixtures of experts, recurrent layers, and matrices of NVFP4. Whatever the damage, a model is
 * refused with a code, or computes numbers, or fails the request with a code.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { changedFolder } from "../../test/helpers/changed-folder.js";
import { writeEncoderGguf } from "../../test/helpers/encoder-gguf.js";
import { poolingRequest, request } from "../../test/helpers/engine-requests.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { damagedJson } from "../../test/helpers/json-damage.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { TestRng } from "../../test/helpers/rng.js";
import type { encodeSafetensors } from "../../test/helpers/safetensors-writer.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { MillraceError } from "../core/errors.js";
import { readGguf } from "../formats/gguf/read.js";
import { arr, bool, f32, nested, str, u32, u64, type WritableValue } from "../formats/gguf/write.js";
import { readSafetensors } from "../formats/safetensors/read.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { EngineCore } from "./engine-core.js";

const root = mkdtempSync(join(tmpdir(), "millrace-damaged-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const backend = createCpuBackend({ numThreads: 1 });
afterAll(() => backend.destroy());

/** Computes a short text. @returns the code of the refusal or of the failure, or "numbers" */
async function outcomeOf(path: string): Promise<string> {
  try {
    const model = openModel(path);
    const maxModelLen = Math.min(40, model.config.contextLength);
    const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: path, numThreads: 1, kvCacheMemoryBytes: 2 ** 22 };
    const core = await EngineCore.create(model, { ...options, maxModelLen }, backend);
    const tokens = [5, 6, 7, 8].slice(0, maxModelLen);
    const isChat = core.info.isCausal && model.config.head === undefined;
    core.add(1, isChat ? request(tokens, { maxTokens: 1 }) : poolingRequest(tokens, core.info.pooling));
    while (core.hasWork) {
      for (const { output } of await core.step()) {
        for (const value of output.pooled ?? []) expect(value).toSatisfy(Number.isFinite);
      }
    }
    return core.takeFailures()[0]?.error.code ?? "numbers";
  } catch (thrown) {
    if (!(thrown instanceof MillraceError)) throw thrown;
    expect(thrown.code).not.toBe("internal_error");
    return thrown.code;
  }
}

const encoders = readdirSync(fixture("hf-encoders")).map((name) => `hf-encoders/${name}`);
const HF = [
  "gptoss",
  "gptoss_plain",
  "glm4_moe",
  "gemma4_e",
  "gemma4_moe",
  "lfm2_moe",
  "qwen3next",
  "phimoe",
  "bailing_moe_v2",
];
const NVFP4 = ["hf-quantized/nvfp4-modelopt", "hf-quantized/nvfp4-pack"];
const folders = [...encoders, ...HF.map((name) => `hf/${name}`), ...NVFP4];
const SETTINGS = ["config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"];
const MODULES = ["1_Pooling/config.json", "2_Dense/config.json", "1_LogitScore/config.json"];

let numPlaces = 0;
const place = (suffix = "") => join(root, `${numPlaces++}${suffix}`);

describe("a folder's settings", () => {
  test.each(folders)("%s", async (name) => {
    const folder = place();
    cpSync(fixture(name), folder, { recursive: true });
    for (const file of [...SETTINGS, ...MODULES].filter((each) => existsSync(join(folder, each)))) {
      const path = join(folder, file);
      const sound = readFileSync(path, "utf8");
      for (const json of fc.sample(damagedJson(JSON.parse(sound)), { seed: 5, numRuns: 100 })) {
        writeFileSync(path, JSON.stringify(json));
        await outcomeOf(folder);
      }
      writeFileSync(path, sound);
    }
    expect(await outcomeOf(folder)).toBe("numbers");
    rmSync(folder, { recursive: true });
  }, 600_000);
});

type Tensors = Parameters<typeof encodeSafetensors>[0];
type Tensor = Tensors[string] & { readonly data: Uint8Array };

/** By the change to one tensor; all but the last two contradict the settings. */
const TENSOR_DAMAGE: readonly ((tensor: Tensor) => Tensors[string])[] = [
  (tensor) => ({ ...tensor, shape: [1, ...tensor.shape] }),
  (tensor) => ({ ...tensor, dtype: "U8", shape: [tensor.data.byteLength] }),
  (tensor) => ({ ...tensor, shape: [0, ...tensor.shape.slice(1)], data: new Uint8Array() }),
  ({ data, ...tensor }) => ({ ...tensor, data: new Uint8Array(data.byteLength).fill(0xff) }),
  ({ data, ...tensor }) => ({ ...tensor, data: new Uint8Array(data.byteLength).fill(0x7f) }),
];

describe("a folder's tensors", () => {
  test.each(folders)("%s", async (name) => {
    const rng = new TestRng(9);
    const names = [...readSafetensors(fixture(name)).tensors.keys()];
    for (const tensor of names.filter((each) => !/layers?\.[1-9]/.test(each))) {
      const damage = TENSOR_DAMAGE[rng.int(0, TENSOR_DAMAGE.length - 1)]!;
      const tensors = (all: Tensors) => ({ ...all, [tensor]: damage(all[tensor] as Tensor) });
      const folder = changedFolder(fixture(name), place(), { tensors });
      await outcomeOf(folder);
      rmSync(folder, { recursive: true });
    }
  }, 600_000);
});

const VALUES: readonly WritableValue[] = [
  ...[0, 1, 3, 7, 2 ** 31, 2 ** 32 - 1].map(u32),
  u64(2n ** 63n),
  ...[0, -1, 1e-30, 3e38, Number.NaN, Number.POSITIVE_INFINITY].map(f32),
  ...["", "x", "sigmoid"].map(str),
  bool(true),
  bool(false),
  arr("u32", []),
  arr("u32", [1, 2]),
  arr("f32", [Number.NaN, 1]),
  arr("string", ["yes", "yes"]),
  nested([arr("u8", [1])]),
];

/** Keys of the metadata, and some that only other families have. */
const OTHER_KEYS = [
  "pooling_type",
  "expert_count",
  "expert_used_count",
  "expert_group_count",
  "expert_group_used_count",
  "expert_gating_func",
  "expert_shared_count",
  "leading_dense_block_count",
  "nextn_predict_layers",
  "attention.causal",
  "attention.shared_kv_layers",
  "embedding_length_per_layer_input",
  "attention.sliding_window",
  "attention.sliding_window_pattern",
  "rope.scaling.type",
  "rope.scaling.factor",
  "classifier.output_labels",
];

describe("a file's metadata", () => {
  type Write = (path: string, changes: Record<string, WritableValue>) => void;
  /** Each file is a new one: the kernels notice where one that they read is written anew. */
  const outcomeWith = async (write: Write, changes: Record<string, WritableValue>) => {
    const path = place(".gguf");
    write(path, changes);
    const outcome = await outcomeOf(path);
    rmSync(path);
    return outcome;
  };

  const damage = async (write: Write) => {
    const path = place(".gguf");
    write(path, {});
    const { metadata } = readGguf(path);
    expect(await outcomeOf(path)).toBe("numbers");
    const architecture = metadata.string("general.architecture")!;
    const own = [...metadata.keys()].filter((key) => !key.startsWith("tokenizer."));
    const keys = [...own, ...OTHER_KEYS.map((key) => `${architecture}.${key}`)];
    const rng = new TestRng(4);
    const outcomes: string[] = [];
    for (let round = 0; round < 200; round++) {
      const pick = () => [keys[rng.int(0, keys.length - 1)]!, VALUES[rng.int(0, VALUES.length - 1)]!] as const;
      outcomes.push(await outcomeWith(write, Object.fromEntries(Array.from({ length: rng.int(1, 2) }, pick))));
    }
    expect(outcomes).not.toContain("model_file_changed");
    const numRefused = outcomes.filter((outcome) => outcome !== "numbers").length;
    expect(numRefused).toBeGreaterThan(50);
    expect(numRefused).toBeLessThan(195);
  };

  test.each(
    encoders.filter((name) => !name.includes("qwen3") && !name.endsWith("modernbert_rank")),
  )("%s", async (name) => {
    await damage((path, changes) => writeEncoderGguf(fixture(name), path, changes));
  }, 600_000);

  test.each(["gpt-oss", "glm4moe", "qwen3"] as const)("%s", async (architecture) => {
    await damage((path, metadata) => {
      writeRandomModel(path, { architecture, seed: 1, width: 64, metadata });
    });
  }, 600_000);

  test("gemma4 whose layers share keys", async () => {
    const sizes = { layers: 6, sharesKeys: true, seed: 1, width: 64 };
    await damage((path, metadata) => {
      writeRandomModel(path, { architecture: "gemma4", ...sizes, metadata });
    });
  }, 600_000);
});
