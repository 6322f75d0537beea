import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runSix, withSmallCore } from "../../../test/helpers/drafted-requests.js";
import { writeEagle3 } from "../../../test/helpers/eagle3-folder.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { draftsAfter } from "../../../test/helpers/guesses.js";
import { leastKvBudget } from "../../../test/helpers/kv-memory.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import type { EngineOptions } from "../api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "../api/speculative-config.js";
import type { Drafter } from "./drafter.js";

/** As test/fixtures/make-eagle3-heads.py writes it. */
interface Expected {
  readonly ids: readonly number[];
  readonly drafts: Readonly<Record<string, Readonly<Record<string, ExpectedDraft>>>>;
}
interface ExpectedDraft {
  readonly tokens: readonly number[];
  readonly chances: readonly number[];
}
const { ids, drafts } = JSON.parse(readFileSync(fixture("eagle3/expected.json"), "utf8")) as Expected;

/** F32 sums in another order. */
const TOLERANCE = 2e-5;

describe("drafts of an EAGLE-3 head", () => {
  test.each([
    "hub",
    "variant",
  ])("%s: the same as PyTorch computes, alone and together, by chunks, steps and drafts that fail", async (name) => {
    const lengths = [2, 17, ids.length];
    const of = (length: number) => ids.slice(0, length);
    const wanted = lengths.map((length) => drafts[name]![length]!);
    const [shortest, middle, longest] = wanted;
    for (const [requests, expected] of [
      [lengths.map((length) => ({ ids: of(length) })), wanted],
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
      [[{ ids: of(41), numPrompt: 20, byAlternative: true }], [longest]],
    ] as const) {
      const got = await draftsAfter(fixture("hf/llama"), fixture(`eagle3/${name}`), requests, 6, "f32");
      expected.forEach((draft, index) => {
        expect(got[index]!.tokens).toEqual(draft!.tokens);
        draft!.chances.forEach((chance, i) => {
          expect(Math.abs(got[index]!.chances[i]! - chance)).toBeLessThan(TOLERANCE);
        });
      });
    }
  });
});

const MODEL: RandomModelOptions = { architecture: "llama", seed: 1, type: "F16", width: 64, ff: 96 };
const SIZES = { width: 64, vocab: 384, draftVocab: 128, inputLayers: [1, 0, 1] };
let folder = "";
const pathOf = (name: string) => join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-eagle3-"));
  writeRandomModel(pathOf("model"), MODEL);
  writeRandomModel(pathOf("windows"), { architecture: "gemma3", seed: 3, width: 64 });
  writeEagle3(pathOf("head"), SIZES);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const draftedBy = (path: string, method: SpeculativeConfig["method"] = "eagle3"): SpeculativeConfig => ({
  ...DEFAULT_SPECULATIVE_CONFIG,
  method,
  draftModelPath: path,
  isAdaptive: false,
  numSpeculativeTokens: 5,
});

/** The requests' completions, those of one until it is aborted. */
const run = (
  speculative: SpeculativeConfig,
  options: Partial<EngineOptions> = {},
  abortAtStep?: number,
  drafter?: Drafter,
) =>
  withSmallCore({ modelPath: pathOf("model"), speculative, ...options }, (core) => runSix(core, abortAtStep), drafter);

describe("an EAGLE-3 head in the engine", () => {
  test("tokens are those of plain decoding, with prefixes shared and memory short", async () => {
    const plain = await run(NO_SPECULATION);
    const drafted = await run(draftedBy(pathOf("head")));
    expect(drafted.completions).toEqual(plain.completions);
    expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
    // Blocks of half the size of those above, and too few.
    const room = { blockSize: 8, maxModelLen: 160, maxNumSeqs: 4, maxNumBatchedTokens: 24 };
    const budget = leastKvBudget(pathOf("model"), 26, { ...room, kvCacheDtype: "f16" });
    const crowded = await run(draftedBy(pathOf("head")), { ...room, kvCacheMemoryBytes: budget.kvBytes }, 40);
    plain.completions.delete(5);
    expect(crowded.completions).toEqual(plain.completions);
    expect(crowded.stats.numPreemptions).toBeGreaterThan(0);
    expect(crowded.stats.prefixCacheHitTokens).toBeGreaterThan(0);
    expect(crowded.stats.speculation.numDraftTokens).toBeGreaterThan(100);
  });

  test("a model whose layers have windows", async () => {
    const options = { modelPath: pathOf("windows"), kvCacheDtype: "int8", blockSize: 8 } as const;
    const drafted = await run(draftedBy(pathOf("head")), options);
    expect(drafted.completions).toEqual((await run(NO_SPECULATION, options)).completions);
    expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
  });

  test.each(["auto", "heads"] as const)("method %s takes the folder", async (method) => {
    const { speculation } = (await run(draftedBy(pathOf("head"), method))).stats;
    expect(speculation.numDraftTokens).toBeGreaterThan(0);
  });

  test.each([
    ["medusa", {}, "invalid_option", /expected heads of kind medusa, got eagle3/],
    [
      "eagle3",
      { architectures: ["LlamaForCausalLM"] },
      "invalid_option",
      /expected a folder with LlamaForCausalLMEagle3/,
    ],
    ["eagle3", { vocab_size: 400 }, "invalid_option", /expected a head for a vocabulary of 384 tokens, got 400/],
    ["eagle3", { target_hidden_size: 128 }, "invalid_option", /expected a head for a model of width 64, got 128/],
    [
      "eagle3",
      { hidden_size: 128 },
      "invalid_option",
      /expected a head of width 64 or with embed_tokens, got width 128/,
    ],
    [
      "eagle3",
      { eagle_config: null },
      "invalid_option",
      /expected .*layer_ids to be up to 8 layers below the model's 2, got \[2,1,-1\]/,
    ],
    [
      "eagle3",
      { eagle_config: { eagle_aux_hidden_state_layer_ids: [0, 1] } },
      "model_tensor",
      /expected fc.weight of shape \[64,128\], got \[64,192\]/,
    ],
    ["eagle3", { eagle_config: { norm_before_fc: true } }, "model_config", /expected no .*norm_before_fc/],
    ["eagle3", { num_hidden_layers: 2 }, "model_config", /expected .*num_hidden_layers to be 1, got 2/],
    ["eagle3", { draft_vocab_size: 100 }, "model_tensor", /expected d2t of shape \[100\]/],
    [
      "eagle3",
      { num_key_value_heads: 4 },
      "model_tensor",
      /expected midlayer.self_attn.k_proj.weight of shape \[64,128\], got \[32,128\]/,
    ],
  ] as const)("method %s refuses a folder with %o", async (method, config, code, message) => {
    const path = mkdtempSync(join(folder, "refused-"));
    writeEagle3(path, SIZES, 1, { config });
    const failure: unknown = await run(draftedBy(path, method)).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
  });

  test.each([
    ["d2t", /expected a tensor d2t of shape \[128\], got none/],
    ["lm_head.weight", /expected lm_head.weight of shape \[128,64\], got none/],
    ["midlayer.hidden_norm.weight", /expected a tensor midlayer.hidden_norm.weight of shape \[64\], got none/],
  ])("refuses a folder without %s", async (without, message) => {
    const path = mkdtempSync(join(folder, "refused-"));
    writeEagle3(path, SIZES, 1, { without });
    const failure: unknown = await run(draftedBy(path)).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ code: "model_tensor", message: expect.stringMatching(message) });
  });

  test("says what to do with a folder of the older format", async () => {
    const path = pathOf("older");
    mkdirSync(path);
    writeFileSync(join(path, "config.json"), JSON.stringify({ architectures: ["LlamaForCausalLMEagle3"] }));
    writeFileSync(join(path, "pytorch_model.bin"), "");
    const failure: unknown = await run(draftedBy(path)).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ code: "invalid_option", message: expect.stringMatching(/got pytorch_model.bin/) });
  });
});

describe("alternatives to a draft's first token", () => {
  test.each([
    { kvCacheDtype: "f32", blockSize: 8, numThreads: 1 },
    { kvCacheDtype: "int8", blockSize: 16, numThreads: 2, maxNumSeqs: 4 },
  ] as const)("come true where the draft does not, and the text is that of plain decoding: %o", async (options) => {
    for (const modelPath of [pathOf("model"), pathOf("windows")]) {
      const plain = await run(NO_SPECULATION, { ...options, modelPath });
      const drafter: Drafter = {
        name: "wrong at first",
        propose: ({ id, numOutputTokens }) => {
          const right = plain.completions.get(id)!.tokenIds[numOutputTokens]!;
          const [wrong, other] = right < 3 ? [right + 1, right + 2] : [right - 1, right - 2];
          return { tokens: [wrong], chances: [0.5], alternatives: { tokens: [other, right], chances: [0.2, 0.2] } };
        },
        forget: () => {},
      };
      const speculative = { ...draftedBy(pathOf("head"), "auto"), alternatives: 2 };
      const drafted = await run(speculative, { ...options, modelPath }, undefined, drafter);
      expect(drafted.completions).toEqual(plain.completions);
      // Requests with penalties have none: four of six requests of 60 tokens get two tokens at a time.
      expect(drafted.stats.speculation.numAcceptedTokens).toBeGreaterThan(100);
    }
  });
});
