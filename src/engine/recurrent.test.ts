/** Models with recurrent layers: what they refuse, how many sequences run at once, and that states start empty. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runSix, withSmallCore } from "../../test/helpers/drafted-requests.js";
import { type Completion, collect, poolingRequest, request, runAlone } from "../../test/helpers/engine-requests.js";
import { headsMetadata, writeRandomModel } from "../../test/helpers/random-model.js";
import { TestRng } from "../../test/helpers/rng.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { u32, writeGguf } from "../formats/gguf/write.js";
import { stateBytes } from "../model/description/sizes.js";
import { draftStatesWithin, memoryForStates, seatsWithStates } from "../model/description/state-memory.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "./api/speculative-config.js";
import { EngineCore } from "./engine-core.js";
import type { Drafter } from "./speculative/drafter.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const modelPath = join(folder, "qwen35.gguf");
const llamaPath = join(folder, "llama.gguf");
beforeAll(() => {
  writeRandomModel(modelPath, { architecture: "qwen35", seed: 1 });
  writeRandomModel(llamaPath, { architecture: "llama", seed: 1 });
});

const TEXT = Array.from({ length: 90 }, (_, i) => (i * 37 + 5) % 300);

async function withCore<T>(
  changes: Partial<EngineOptions>,
  use: (core: EngineCore, notes: readonly string[]) => Promise<T>,
): Promise<T> {
  const backend = createCpuBackend({ numThreads: 2 });
  const notes: string[] = [];
  try {
    const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 2, maxNumSeqs: 4, ...changes };
    const report = { progress: () => {}, note: (text: string) => void notes.push(text) };
    const core = await EngineCore.create(openModel(options.modelPath), options, backend, report);
    return await use(core, notes);
  } finally {
    backend.destroy();
  }
}

describe("options", () => {
  it.each([
    { prefixCacheDisk: { folder, maxBytes: 2 ** 20 } },
    { kvEviction: { policy: "window", budget: { tokens: 32 } } },
  ] as const)("for which no states are kept are refused (%#)", async (changes) => {
    const refused = withCore(changes as Partial<EngineOptions>, async () => {});
    await expect(refused).rejects.toMatchObject({ code: "invalid_option" });
  });

  it.each([
    [15, 31],
    [2, 8],
  ])("the start says what states there are (drafts of %i)", async (numSpeculativeTokens, numDrafts) => {
    const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens };
    await withCore({ enablePrefixCaching: false, speculative }, async (core, notes) => {
      await runAlone(core, request(TEXT, { maxTokens: 8 }));
      await runAlone(core, request(TEXT, { maxTokens: 8 }));
      expect(core.stats()).toMatchObject({ prefixCacheHitTokens: 0 });
      expect(core.info.recurrentBytes).toBe((4 + numDrafts) * stateBytes(openModel(modelPath).config));
      const stated = `${4 + numDrafts} states of .*, for 4 sequences, ${numDrafts} drafted tokens of a step and 0 ends`;
      expect(notes.join()).toMatch(new RegExp(stated));
    });
  });

  it("heads attend to a layer that has keys", async () => {
    const draftModelPath = join(folder, "heads.gguf");
    const metadata = headsMetadata("eagle", { architecture: "qwen35", seed: 1 });
    writeGguf(draftModelPath, { metadata: { ...metadata, "mill-heads.past_layer": u32(1) }, tensors: [] });
    const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, draftModelPath };
    const refused = withCore({ speculative }, async () => {});
    await expect(refused).rejects.toThrow("expected a layer of the model with keys and values, got layer 1, which is");
  });

  it("a draft model has none", async () => {
    const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, method: "draft_model", draftModelPath: modelPath } as const;
    const refused = withCore({ modelPath: llamaPath, speculative }, async () => {});
    await expect(refused).rejects.toMatchObject({ code: "invalid_option" });
  });
});

it("a model whose last layer is recurrent reads the last row of a prompt", async () => {
  const path = join(folder, "last.gguf");
  writeRandomModel(path, { architecture: "qwen35", layers: 3, seed: 6 });
  expect(openModel(path).config.layers.at(-1)!.mixer.kind).toBe("delta");
  const asked = request([7, 8, 9, 10, 11], { maxTokens: 6, numLogprobs: 2 });
  const answers: Completion[] = [];
  // In chunks of two tokens, a step reads each row that it computes.
  for (const maxNumBatchedTokens of [64, 2]) {
    const options = { modelPath: path, maxNumBatchedTokens, maxNumSeqs: 1 };
    answers.push(await withCore(options, (core) => runAlone(core, { ...asked, promptIds: asked.promptIds.slice() })));
  }
  expect(answers[0]!.tokenIds).toHaveLength(6);
  expect(answers[1]!.logprobs).toEqual(answers[0]!.logprobs);
});

it("as many sequences run as have room for their states", () => {
  const { config } = openModel(modelPath);
  const each = stateBytes(config);
  expect(seatsWithStates(config, 64, memoryForStates(4 * 10 * each, undefined))).toBe(10);
  expect(seatsWithStates(config, 64, memoryForStates(4 * 100 * each, undefined))).toBe(64);
  expect(seatsWithStates(config, 64, memoryForStates(40 * each, 30 * each))).toBe(5);
  expect(seatsWithStates(config, 64, each)).toBe(1);
  expect(seatsWithStates(openModel(llamaPath).config, 64, 0)).toBe(64);
  expect(() => seatsWithStates(config, 64, each - 1)).toThrow(/memory for the recurrent state of one sequence/);
});

describe("a cached prefix", () => {
  /** Answers with and without the cache, and the tokens that came from it. */
  async function hitsOf(prompts: readonly (readonly number[])[], areTogether = false): Promise<number> {
    const requests = prompts.map((ids) => request(ids, { maxTokens: 12, numLogprobs: 2 }));
    const plain = await withCore({ enablePrefixCaching: false }, async (core) => {
      const all: Completion[] = [];
      for (const each of requests) all.push(await runAlone(core, each));
      return all;
    });
    return await withCore({}, async (core) => {
      const completions = new Map<number, Completion>();
      const run = async () => {
        while (core.hasWork)
          for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
      };
      for (const [id, each] of requests.entries()) {
        core.add(id, { ...each, promptIds: each.promptIds.slice() });
        if (!areTogether) await run();
      }
      await run();
      expect(requests.map((_, id) => completions.get(id)?.logprobs)).toEqual(plain.map(({ logprobs }) => logprobs));
      return core.stats().prefixCacheHitTokens;
    });
  }

  it("is taken up where a prompt ended before: again, and as a chat goes on", async () => {
    expect(await hitsOf([TEXT, TEXT])).toBe(80);
    expect(await hitsOf([TEXT, [...TEXT, 1, 2, 3, ...TEXT], [...TEXT, 1, 2, 3, ...TEXT, 4, 5]])).toBe(80 + 176);
  });

  it("is taken up where prompts part, from the third one on", async () => {
    const [shared, longer] = [TEXT.slice(0, 70), [...TEXT.slice(0, 40), ...TEXT]];
    expect(await hitsOf([TEXT, [...shared, 1, ...TEXT], [...shared, 2, ...TEXT]])).toBe(64);
    // Where the second one's end is the only state, and where no text went on.
    expect(await hitsOf([TEXT, [...TEXT.slice(0, 80), 1, ...TEXT], [...TEXT.slice(0, 80), 2, ...TEXT]])).toBe(160);
    // The second one is a beginning of the first.
    expect(await hitsOf([longer, longer.slice(0, 51), [...longer.slice(0, 50), 1]])).toBe(48);
  });

  it("is computed once for prompts that come at once and part later", async () => {
    const shared = TEXT.slice(0, 70);
    expect(await hitsOf([[...shared, 1], [...shared, 2, ...shared], [...shared, 3], TEXT.slice(0, 33)], true)).toBe(
      64 + 64 + 32,
    );
  });

  it("is not where none is kept", async () => {
    expect(await hitsOf([TEXT, [...TEXT.slice(0, 70), 1, 2, 3]])).toBe(0);
    expect(await hitsOf([TEXT.slice(0, 12), TEXT.slice(0, 12)])).toBe(0);
  });

  it("is computed once for equal prompts at once", async () => {
    expect(await hitsOf([TEXT, TEXT, TEXT], true)).toBe(160);
  });
});

describe("drafts", () => {
  const run = (speculative: SpeculativeConfig, drafter?: Drafter) =>
    withSmallCore(
      { modelPath, speculative, maxNumSeqs: 6, maxNumBatchedTokens: 128 },
      (core) => runSix(core, 30),
      drafter,
    );

  it.each([
    { method: "ngram" },
    { method: "suffix", numSpeculativeTokens: 2 },
    { method: "draft_model", draftModelPath: llamaPath },
  ] as const)("change no bit: $method", async (changes) => {
    const { completions, stats } = await run({ ...DEFAULT_SPECULATIVE_CONFIG, ...changes, isAdaptive: false });
    expect(completions).toEqual((await run(NO_SPECULATION)).completions);
    expect(stats.speculation.numDraftTokens).toBeGreaterThan(10);
  });

  it("change no bit where some are right, and more are found than there are slots", async () => {
    const { completions } = await run(NO_SPECULATION);
    const rng = new TestRng(3);
    const oracle: Drafter = {
      name: "oracle",
      propose: ({ id, numOutputTokens }, maxTokens) => {
        const right = completions.get(id)?.tokenIds.slice(numOutputTokens, numOutputTokens + maxTokens) ?? [];
        const tokens = right.map((token) => (rng.chance(0.8) ? token : (token + 1) % 300));
        return tokens.length === 0 ? undefined : { tokens, chances: tokens.map(() => 0.8) };
      },
      forget: () => {},
    };
    const drafted = await run({ ...DEFAULT_SPECULATIVE_CONFIG, isAdaptive: false }, oracle);
    expect(drafted.completions).toEqual(completions);
    const { numDraftTokens, numAcceptedTokens } = drafted.stats.speculation;
    expect(numAcceptedTokens).toBeGreaterThan(50);
    expect(numDraftTokens - numAcceptedTokens).toBeGreaterThan(50);
  });

  it("are as many in a step as there are slots for their states", () => {
    const { config } = openModel(modelPath);
    const each = stateBytes(config);
    expect(draftStatesWithin(config, 100, 8 * 5 * each)).toBe(5);
    expect(draftStatesWithin(config, 4, 8 * 5 * each)).toBe(4);
    expect(draftStatesWithin(config, 100, 8 * 100 * each)).toBe(31);
    expect(draftStatesWithin(openModel(llamaPath).config, 100, 8 * 100 * each)).toBe(0);
  });
});

it("a seat's next sequence starts anew, in chunks, beside others and after pre-emption", async () => {
  const requests = [
    request(TEXT, { maxTokens: 20, numLogprobs: 1 }),
    request(TEXT.slice(3), { maxTokens: 24, numLogprobs: 1 }),
    request([7], { maxTokens: 30, numLogprobs: 1 }),
    request(TEXT.slice(0, 40), { maxTokens: 1, numPromptLogprobs: 1 }),
    poolingRequest(TEXT.slice(10), "mean"),
    request(TEXT.slice(50), { maxTokens: 30, temperature: 1, seed: 5n, numLogprobs: 1 }),
  ];
  const alone = await withCore({ maxNumSeqs: 1, maxModelLen: 128 }, async (core) => {
    const all: Completion[] = [];
    for (const each of requests) all.push(await runAlone(core, each));
    return all;
  });
  const tight = { maxModelLen: 128, maxNumSeqs: 3, maxNumBatchedTokens: 7, blockSize: 8 };
  // Two attention layers of F16: room for about two of the texts.
  const kvCacheMemoryBytes = 26 * 8 * 2 * 2 * 2 * 48 * 2;
  await withCore({ ...tight, kvCacheMemoryBytes }, async (core) => {
    const completions = new Map<number, Completion>();
    requests.forEach((each, id) => {
      core.add(id, { ...each, promptIds: each.promptIds.slice() });
    });
    while (core.hasWork) for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    expect(core.stats().numPreemptions).toBeGreaterThan(0);
    expect(requests.map((_, id) => completions.get(id)?.tokenIds)).toEqual(alone.map(({ tokenIds }) => tokenIds));
    expect(requests.map((_, id) => completions.get(id))).toEqual(alone);
  });
});
