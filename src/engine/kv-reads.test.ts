/**
 * What attention does with the KV memory, seen through the engine: shared prefixes are read once a step, and int8
 * entries cost little.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type Completion, collect, inTurn, request, runAlone } from "../../test/helpers/engine-requests.js";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import type { KvType } from "../backend/ops.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-kv-reads-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function withCore<T>(
  modelPath: string,
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => T | Promise<T>,
): Promise<T> {
  const backend = createCpuBackend({ numThreads: 2, ...options });
  try {
    const all = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 2, kvCacheMemoryBytes: 2 ** 25, ...options };
    return await use(await EngineCore.create(openModel(modelPath), all, backend));
  } finally {
    backend.destroy();
  }
}

test("eight sequences that share a 2,048-token prefix read a quarter of the bytes or less, for the same tokens", async () => {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 3, contextLength: 2200 });
  const prefix = Array.from({ length: 2048 }, (_, i) => (i * 97 + 13) % 300);
  const run = (shareKvReads: boolean) =>
    withCore(modelPath, { shareKvReads }, async (core) => {
      const completions = new Map<number, Completion>();
      const add = (id: number) =>
        core.add(id, request([...prefix, id, 7, id], { maxTokens: 12, temperature: 1, seed: BigInt(id) }));
      const step = async () => {
        for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
      };
      add(1);
      while (!completions.has(1)) await step();
      for (let id = 2; id <= 8; id++) add(id);
      while (completions.size < 8) await step();
      const before = core.stats();
      await step();
      const { kvBytesRead, kvBytesUnshared, numRunning } = core.stats();
      expect(numRunning).toBe(8);
      while (core.hasWork) await step();
      const share = (kvBytesRead - before.kvBytesRead) / (kvBytesUnshared - before.kvBytesUnshared);
      return { share, tokens: [...completions].map(([id, { tokenIds }]) => [id, tokenIds]) };
    });
  const shared = await run(true);
  const apart = await run(false);
  expect(shared.tokens).toEqual(apart.tokens);
  expect(shared.share).toBeLessThan(0.25);
  expect(apart.share).toBe(1);
});

test("int8 entries move the bundled model's scores by little", async () => {
  const chats = JSON.parse(readFileSync(join(repositoryRoot(), "models/mill-base.expected.json"), "utf8")) as {
    readonly "mill-base": readonly { readonly tokens: readonly number[] }[];
  };
  const scores = (kvCacheDtype: KvType): Promise<number[]> =>
    withCore(join(repositoryRoot(), "models/mill-base.gguf"), { kvCacheDtype }, async (core) => {
      const scored = await inTurn(chats["mill-base"], async ({ tokens }) => {
        const { promptLogprobs } = await runAlone(core, request(tokens, { maxTokens: 1, numPromptLogprobs: 0 }));
        return promptLogprobs!.slice(1).map((logprob) => logprob!.logprob);
      });
      return scored.flat();
    });
  const exact = await scores("f32");
  const meanError = async (kvType: KvType): Promise<number> =>
    (await scores(kvType)).reduce((sum, score, i) => sum + Math.abs(score - exact[i]!), 0) / exact.length;
  // 0.0004 and 0.008 nats when this was written.
  expect(await meanError("f16")).toBeLessThan(0.005);
  expect(await meanError("int8")).toBeLessThan(0.02);
});
