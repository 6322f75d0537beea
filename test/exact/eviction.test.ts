/**
 * Eviction seen through the engine: long answers keep their bits whatever runs beside them, memory is freed, and what
 * was dropped is reported.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { OracleDrafter } from "../../src/bench/engine/oracle-drafter.js";
import { EVICTION_POLICIES, type EvictionOptions } from "../../src/engine/api/kv-eviction.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../src/engine/api/options.js";
import type { EngineRequest } from "../../src/engine/api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION } from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import type { Drafter } from "../../src/engine/speculative/drafter.js";
import { openModel } from "../../src/model/open-model.js";
import { type Completion, collect, inTurn, request, runAlone } from "../helpers/engine-requests.js";
import { writeRandomModel } from "../helpers/random-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-eviction-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const LONGEST = 1500;
const modelPath = join(folder, "model.gguf");
/** Layers of full attention beside layers with a window. */
const windowedPath = join(folder, "windowed.gguf");

beforeAll(() => {
  writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 5, contextLength: LONGEST });
  writeRandomModel(windowedPath, { architecture: "gemma2", seed: 8, contextLength: LONGEST });
});

async function withCore<T>(
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => Promise<T>,
  drafter?: Drafter,
): Promise<T> {
  const all = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 2, kvCacheMemoryBytes: 2 ** 25, ...options };
  const backend = createCpuBackend(all);
  try {
    return await use(await EngineCore.create(openModel(all.modelPath), all, backend, undefined, drafter));
  } finally {
    backend.destroy();
  }
}

const prompt = (length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => (i * (97 + seed) + 13 * seed) % 300);

/** Lengths of prompt and answer around points, blocks and the window of observed queries. */
const LENGTHS = [
  [600, 300],
  [77, 700],
  [256, 257],
  [1, 520],
  [600, 30],
  [333, 0],
] as const;
const REQUESTS: readonly EngineRequest[] = LENGTHS.map(([length, maxTokens], i) =>
  request(prompt(length, length === 600 ? 1 : i), { maxTokens, temperature: 0.7, seed: BigInt(i), numLogprobs: 1 }),
);

test.each(
  EVICTION_POLICIES.flatMap((policy) => [modelPath, windowedPath].map((path) => ({ policy, path }))),
)("$policy: chunks, neighbours, cached prefixes, pre-emption and drafts change no bit", async ({ policy, path }) => {
  const kvEviction: EvictionOptions = { policy, budget: { share: 0.3 } };
  const alone = await withCore(
    { modelPath: path, kvEviction, speculative: NO_SPECULATION, enablePrefixCaching: false, maxNumSeqs: 1 },
    (core) => inTurn(REQUESTS, (each) => runAlone(core, { ...each, promptIds: each.promptIds.slice() })),
  );
  const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: 5, isAdaptive: false };
  const drafter = new OracleDrafter(
    (id) => alone[id]?.tokenIds,
    0.9,
    () => 0.5,
    true,
  );
  const options = { modelPath: path, kvEviction, speculative, maxNumBatchedTokens: 70, maxNumSeqs: 4 };
  await withCore(
    { ...options, kvCacheMemoryBytes: path === modelPath ? 240_000 : 300_000 },
    async (core) => {
      const together = new Map<number, Completion>();
      for (const [id, each] of REQUESTS.entries()) core.add(id, { ...each, promptIds: each.promptIds.slice() });
      while (core.hasWork) {
        for (const { requestId, output } of await core.step()) collect(together, requestId, output);
      }
      expect(core.takeFailures()).toEqual([]);
      alone.forEach(({ tokenIds, logprobs }, id) => {
        expect(together.get(id)?.tokenIds ?? [], `request ${id}`).toEqual(tokenIds);
        expect(together.get(id)?.logprobs ?? [], `request ${id}`).toEqual(logprobs);
      });
      const { numUsedKvBlocks, numPreemptions, prefixCacheHitTokens, speculation, numEvictedTokens } = core.stats();
      expect(numUsedKvBlocks).toBe(0);
      expect(Math.min(numPreemptions, speculation.numAcceptedTokens)).toBeGreaterThan(0);
      // Blocks of a window before the observed queries are given back soon.
      if (path === modelPath) expect(prefixCacheHitTokens).toBeGreaterThan(0);
      expect(numEvictedTokens).toBeGreaterThan(600);
    },
    drafter,
  );
});

test("a prompt that is cached whole, and one that goes on after an answer, are answered as without a cache", async () => {
  const options = { kvEviction: { policy: "snapkv", budget: { share: 0.2 } } as const, speculative: NO_SPECULATION };
  const first = request(prompt(640, 1), { maxTokens: 330, numLogprobs: 0 });
  const answersOf = (enablePrefixCaching: boolean) =>
    withCore({ ...options, enablePrefixCaching }, async (core) => {
      const { tokenIds, logprobs } = await runAlone(core, first);
      const turn = [...first.promptIds, ...tokenIds, 7, 8, 9];
      const others = [
        await runAlone(core, { ...first, promptIds: first.promptIds.slice() }),
        await runAlone(core, request(turn, { maxTokens: 20, numLogprobs: 0 })),
      ];
      return [logprobs, ...others.map((each) => each.logprobs), core.stats().prefixCacheHitTokens > 1000];
    });
  const [cached, computed] = [await answersOf(true), await answersOf(false)];
  expect(cached.slice(0, 3)).toEqual(computed.slice(0, 3));
  expect([cached[3], computed[3]]).toEqual([true, false]);
});

test("memory is free once a prompt is read, and the answer says how much of its context is gone", async () => {
  const kvEviction: EvictionOptions = { policy: "snapkv", budget: { share: 0.25 } };
  await withCore({ kvEviction }, async (core) => {
    core.add(1, request(prompt(1024, 3), { maxTokens: 4 }));
    const used: number[] = [];
    let evicted: number | undefined;
    while (core.hasWork) {
      for (const { output } of await core.step()) evicted = output.numEvictedTokens;
      used.push(core.stats().numUsedKvBlocks);
    }
    // Steps of 256 prompt tokens; the last one ends with a quarter of the blocks. Then the answer takes a block.
    expect(used).toEqual([16, 32, 48, 16, 17, 17, 0]);
    expect(evicted).toBe(1024 - 256);
  });
});

test("a budget above the text changes nothing, one below it does", async () => {
  const answer = (kvEviction: EvictionOptions | undefined) =>
    withCore({ kvEviction }, (core) => runAlone(core, request(prompt(700, 4), { maxTokens: 40, numLogprobs: 0 })));
  const whole = await answer(undefined);
  expect(await answer({ policy: "snapkv", budget: { tokens: 2000 } })).toEqual(whole);
  const [first, ...others] = (await answer({ policy: "window", budget: { tokens: 64 } })).logprobs;
  expect(first).toEqual(whole.logprobs[0]);
  expect(others).not.toEqual(whole.logprobs.slice(1));
});

test("a text longer than all of the memory is answered, as far as its prompt fits", async () => {
  const kvEviction: EvictionOptions = { policy: "snapkv", budget: { tokens: 128 } };
  const kvCacheMemoryBytes = 2 ** 17;
  const numBlocks = await withCore({ kvCacheMemoryBytes }, async (core) => core.info.numKvBlocks);
  await withCore({ kvEviction, kvCacheMemoryBytes }, async (core) => {
    const numTokens = numBlocks * 16;
    expect(numTokens).toBeLessThan(1200);
    const { tokenIds } = await runAlone(core, request(prompt(100, 2), { maxTokens: 1200, temperature: 1 }));
    expect(tokenIds).toHaveLength(1200);
  });
});

test.each([
  [{ kvLayout: "contiguous" }, "expected --kv-layout paged for --kv-eviction, got contiguous"],
  [
    { speculative: { ...DEFAULT_SPECULATIVE_CONFIG, method: "draft_model", draftModelPath: modelPath } },
    'expected --speculative-config {"method":"auto"} or another method without a model for --kv-eviction, got draft_model',
  ],
] as const)("refuses parts that read evicted entries: %j", async (options, message) => {
  const kvEviction: EvictionOptions = { policy: "window", budget: { share: 0.5 } };
  const opened = withCore({ kvEviction, ...options }, async () => {});
  await expect(opened).rejects.toMatchObject({ code: "invalid_option", message });
});
