/** Models with recurrent layers: what they refuse, how many sequences run at once, and that states start empty. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Completion, collect, poolingRequest, request, runAlone } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { stateBytes } from "../model/description/sizes.js";
import { memoryForStates, seatsWithStates } from "../model/description/state-memory.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "./api/speculative-config.js";
import { EngineCore } from "./engine-core.js";
import type { PrefixNode } from "./memory/prefix-index.js";
import { StateSnapshots } from "./memory/state-snapshots.js";

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
    { speculative: { ...DEFAULT_SPECULATIVE_CONFIG, method: "ngram" } },
    { speculative: { ...DEFAULT_SPECULATIVE_CONFIG, draftModelPath: llamaPath } },
  ] as const)("that need a state to go back are refused (%#)", async (changes) => {
    const refused = withCore(changes as Partial<EngineOptions>, async () => {});
    await expect(refused).rejects.toMatchObject({ code: "invalid_option" });
  });

  it("by default there are no drafts, and the start says what there is", async () => {
    await withCore({ enablePrefixCaching: false }, async (core, notes) => {
      await runAlone(core, request(TEXT, { maxTokens: 8 }));
      await runAlone(core, request(TEXT, { maxTokens: 8 }));
      expect(core.stats()).toMatchObject({ prefixCacheHitTokens: 0, speculation: { numDraftTokens: 0 } });
      expect(core.info.recurrentBytes).toBe(4 * stateBytes(openModel(modelPath).config));
      expect(notes.join()).toMatch(/4 states of .*, for 4 sequences and the ends of 0 prompts.*nothing is drafted/);
    });
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

  it("is not where none is kept", async () => {
    expect(await hitsOf([TEXT, [...TEXT.slice(0, 70), 1, 2, 3]])).toBe(0);
    expect(await hitsOf([TEXT.slice(0, 12), TEXT.slice(0, 12)])).toBe(0);
  });

  it("is computed once for equal prompts at once", async () => {
    expect(await hitsOf([TEXT, TEXT, TEXT], true)).toBe(160);
  });
});

const node = (key: number, isLive = true) => ({ key, isLive }) as PrefixNode;

it("slots of prefixes that are gone go first", () => {
  const [live, gone, next] = [node(1), node(2, false), node(3)];
  const snapshots = new StateSnapshots(10, 2);
  for (const each of [live, gone]) snapshots.keep(each, snapshots.take()!);
  snapshots.keep(next, snapshots.take()!);
  expect([live, gone, next].map((each) => snapshots.has(each))).toEqual([true, false, true]);
});

it("slots of prefixes go to the least recently used, and one that is read stays", () => {
  const [a, b, c, d] = [1, 2, 3, 4].map((key) => node(key)) as [PrefixNode, PrefixNode, PrefixNode, PrefixNode];
  const snapshots = new StateSnapshots(10, 2);
  for (const each of [a, b]) snapshots.keep(each, snapshots.take()!);
  const read = snapshots.pin(a);
  expect(snapshots.pin(a)).toBe(read);
  snapshots.unpin(read);
  snapshots.keep(c, snapshots.take()!);
  expect([a, b, c].map((each) => snapshots.has(each))).toEqual([true, false, true]);
  const written = snapshots.take()!;
  expect(snapshots.take()).toBeUndefined();
  snapshots.unpin(read);
  expect(snapshots.take()).toBe(read);
  snapshots.keep(d, written);
  snapshots.giveBack(read);
  expect(snapshots.take()).toBe(read);
  expect([a, b, c, d].map((each) => snapshots.has(each))).toEqual([false, false, false, true]);
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
