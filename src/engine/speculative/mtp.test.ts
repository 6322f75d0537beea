/** A model's own layer for multi-token prediction: what it drafts, and that drafts change nothing. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runSix, withSmallCore } from "../../../test/helpers/drafted-requests.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { draftsAfter } from "../../../test/helpers/guesses.js";
import { leastKvBudget } from "../../../test/helpers/kv-memory.js";
import { EXPECTED_DRAFTS, expectDrafts, MTP_MODELS, writeMtpFolder } from "../../../test/helpers/mtp-folder.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { DRAFTING_MODELS } from "../../../test/helpers/random-requests.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "../api/speculative-config.js";
import { EngineCore } from "../engine-core.js";

const root = mkdtempSync(join(tmpdir(), "millrace-mtp-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

const { ids, drafts } = EXPECTED_DRAFTS;

describe.each(MTP_MODELS)("drafts of the layer of %s", (name) => {
  const of = (length: number) => ids.slice(0, length);
  const [shortest, middle, longest] = [2, 17, ids.length].map((length) => drafts[name][length]!);

  test("are those that transformers' layer makes, alone and together, by chunks, steps and drafts that fail", async () => {
    const folder = writeMtpFolder(name, place());
    for (const [requests, expected] of [
      [[2, 17, ids.length].map((length) => ({ ids: of(length) })), [shortest, middle, longest]],
      [
        [{ ids: of(17), chunk: 3 }, { ids: of(2) }, { ids: of(41), chunk: 7 }],
        [middle, shortest, longest],
      ],
      [[{ ids: of(41), numPrompt: 20 }], [longest]],
      [
        [
          { ids: of(41), numPrompt: 20, numRight: 2 },
          { ids: of(17), numPrompt: 5, numRight: 0 },
        ],
        [longest, middle],
      ],
    ] as const) {
      expectDrafts(await draftsAfter(folder, undefined, requests, 6, "f32"), expected);
    }
  });
});

const BY_MTP: SpeculativeConfig = {
  ...DEFAULT_SPECULATIVE_CONFIG,
  method: "mtp",
  isAdaptive: false,
  numSpeculativeTokens: 5,
};

const run = (modelPath: string, speculative: SpeculativeConfig, options: Partial<EngineOptions> = {}) =>
  withSmallCore({ modelPath, speculative, ...options }, (core) => runSix(core));

describe.each(DRAFTING_MODELS)("a file of $architecture", (model) => {
  const path = join(root, `${model.architecture}.gguf`);
  beforeAll(() => void writeRandomModel(path, model));

  test("answers as without drafts, with prefixes shared and memory short", async () => {
    const plain = await run(path, NO_SPECULATION);
    const drafted = await run(path, BY_MTP);
    expect(drafted.completions).toEqual(plain.completions);
    expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
    const room = { blockSize: 8, maxModelLen: 160, maxNumSeqs: 4, maxNumBatchedTokens: 24 };
    const budget = leastKvBudget(path, 26, { ...room, kvCacheDtype: "f16" });
    const crowded = await run(path, BY_MTP, { ...room, kvCacheMemoryBytes: budget.kvBytes });
    expect(crowded.completions).toEqual(plain.completions);
    expect(crowded.stats.numPreemptions).toBeGreaterThan(0);
    expect(crowded.stats.speculation.numDraftTokens).toBeGreaterThan(100);
  });

  test("keeps the layer's keys and values in the memory for all", async () => {
    const infoOf = (speculative: SpeculativeConfig) =>
      withSmallCore({ modelPath: path, speculative }, ({ info }) => info);
    const [alone, drafting] = [await infoOf(NO_SPECULATION), await infoOf(BY_MTP)];
    expect(drafting.kvBytes).toBeLessThanOrEqual(2 ** 24);
    // Two layers have entries; with the one that drafts three.
    expect(drafting.numKvBlocks).toBe(Math.floor((alone.numKvBlocks * 2) / 3));
  });

  test("drafts by the default method too, where the text gives nothing", async () => {
    const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, isAdaptive: false, promptLookupMin: 16 };
    const plain = await run(path, NO_SPECULATION);
    const drafted = await run(path, speculative);
    expect(drafted.completions).toEqual(plain.completions);
    expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
  });
});

test.each(MTP_MODELS)("a folder of %s answers as without drafts", async (name) => {
  const folder = writeMtpFolder(name, place());
  const options = { maxModelLen: 200 };
  const drafted = await run(folder, BY_MTP, options);
  expect(drafted.completions).toEqual((await run(folder, NO_SPECULATION, options)).completions);
  expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
});

describe("a layer that cannot draft", () => {
  /** Notes of the start, and drafted tokens, or the refusal. */
  async function started(modelPath: string, method: "auto" | "mtp", options: Partial<EngineOptions> = {}) {
    const backend = createCpuBackend({ numThreads: 1 });
    const notes: string[] = [];
    const report = { progress: () => {}, note: (text: string) => void notes.push(text) };
    const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, method };
    const own = { modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 24, maxNumSeqs: 4, speculative, ...options };
    try {
      const core = await EngineCore.create(
        openModel(modelPath),
        { ...DEFAULT_ENGINE_OPTIONS, ...own },
        backend,
        report,
      );
      const { completions } = await runSix(core);
      return { notes: notes.filter((note) => note.includes("multi-token")), completions };
    } finally {
      backend.destroy();
    }
  }

  const refusal = (code: string, message: string) =>
    expect.objectContaining({ code, message: expect.stringContaining(message) });

  test.each([
    ["qwen35", "mtp.fc.weight", "expected a tensor mtp.fc.weight of shape [32,64], got none"],
    ["qwen3next", "mtp.layers.0.self_attn.k_norm.weight", "self_attn.k_norm.weight of shape [16], got none"],
    ["qwen35moe", "mtp.layers.0.mlp.experts.down_proj", "experts.0.down_proj.weight of shape [32,24], got none"],
    ["glm4_moe", "model.layers.3.hnorm.weight", "model.layers.3.hnorm.weight of shape [32], got none"],
  ] as const)("of %s, since %s is missing, is noted or refused", async (name, missing, message) => {
    const folder = writeMtpFolder(name, place(), ({ [missing]: gone, ...others }) => {
      expect(gone).toBeDefined();
      return others;
    });
    const { notes, completions } = await started(folder, "auto", { maxModelLen: 200 });
    expect(notes).toEqual([expect.stringContaining(message)]);
    const plain = await run(fixture(`hf/${name}`), NO_SPECULATION, { maxModelLen: 200 });
    expect(completions).toEqual(plain.completions);
    await expect(started(folder, "mtp")).rejects.toEqual(refusal("model_tensor", message));
  });

  test("since a tensor has another shape, or is one more, is refused", async () => {
    const misshaped = writeMtpFolder("qwen35", place(), (own) => {
      expect(own["mtp.norm.weight"]).toBeDefined();
      return { ...own, "mtp.norm.weight": { dtype: "BF16", shape: [16], data: new Uint8Array(32) } };
    });
    const further = writeMtpFolder("glm4_moe", place(), (own) => ({
      ...own,
      "model.layers.3.mlp.gate.bias": own["model.layers.3.hnorm.weight"]!,
    }));
    await expect(started(misshaped, "mtp")).rejects.toEqual(
      refusal("model_tensor", "expected mtp.norm.weight of shape [32], got [16]"),
    );
    await expect(started(further, "mtp")).rejects.toEqual(refusal("model_tensor", "got model.layers.3.mlp.gate.bias"));
    expect((await started(further, "auto", { maxModelLen: 200 })).notes).toHaveLength(1);
  });

  test("is refused by name where a file has none or several, and where entries are evicted", async () => {
    const [none, several, one] = [".gguf", ".gguf", ".gguf"].map(place);
    const model = { architecture: "glm4moe", seed: 3 } as const;
    writeRandomModel(none!, model);
    writeRandomModel(several!, { ...model, draftLayers: 2 });
    writeRandomModel(one!, { ...model, draftLayers: 1 });
    const one_ = "expected one layer for multi-token prediction in the model's file, got";
    await expect(started(none!, "mtp")).rejects.toEqual(refusal("invalid_option", `${one_} none`));
    await expect(started(several!, "mtp")).rejects.toEqual(refusal("invalid_option", `${one_} 2`));
    expect((await started(several!, "auto")).notes).toEqual([expect.stringContaining(`${one_} 2`)]);
    expect((await started(none!, "auto")).notes).toEqual([]);
    const kvEviction = { policy: "window", budget: { tokens: 64 } } as const;
    await expect(started(one!, "mtp", { kvEviction })).rejects.toEqual(refusal("invalid_option", "without a model"));
    expect((await started(one!, "auto", { kvEviction })).notes).toEqual([]);
  });
});
