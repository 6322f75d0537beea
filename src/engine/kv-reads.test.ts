/** What attention does with the KV memory, seen through the engine: shared prefixes are read once a step, and int8 entries cost little. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type Completion, collect, request, runAlone } from "../../test/helpers/engine-requests.js";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import type { KvType } from "../backend/ops.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-kv-reads-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function withCore<T>(modelPath: string, options: Partial<EngineOptions>, use: (core: EngineCore) => T): T {
  const backend = createCpuBackend({ numThreads: 2, sharesKvReads: options.shareKvReads ?? true });
  try {
    const all = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 2, kvCacheMemoryBytes: 2 ** 25, ...options };
    return use(new EngineCore(openModel(modelPath), all, backend, 0));
  } finally {
    backend.destroy();
  }
}

test("eight sequences that share a 2,048-token prefix read a quarter of the bytes or less, for the same tokens", () => {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 3, contextLength: 2200 });
  const prefix = Array.from({ length: 2048 }, (_, i) => (i * 97 + 13) % 300);
  const run = (shareKvReads: boolean) =>
    withCore(modelPath, { shareKvReads }, (core) => {
      const completions = new Map<number, Completion>();
      const add = (id: number) =>
        core.add(id, request([...prefix, id, 7, id], { maxTokens: 12, temperature: 1, seed: BigInt(id) }));
      const step = () => {
        for (const { requestId, output } of core.step()) collect(completions, requestId, output);
      };
      add(1);
      while (!completions.has(1)) step();
      for (let id = 2; id <= 8; id++) add(id);
      while (completions.size < 8) step();
      const before = core.stats();
      step();
      const { kvBytesRead, kvBytesUnshared, numRunning } = core.stats();
      expect(numRunning).toBe(8);
      while (core.hasWork) step();
      const share = (kvBytesRead - before.kvBytesRead) / (kvBytesUnshared - before.kvBytesUnshared);
      return { share, tokens: [...completions].map(([id, { tokenIds }]) => [id, tokenIds]) };
    });
  const shared = run(true);
  const apart = run(false);
  expect(shared.tokens).toEqual(apart.tokens);
  expect(shared.share).toBeLessThan(0.25);
  expect(apart.share).toBe(1);
});

test("int8 entries move the bundled model's scores by little", () => {
  const chats = JSON.parse(readFileSync(join(repositoryRoot(), "models/mill-base.expected.json"), "utf8")) as {
    readonly "mill-base": readonly { readonly tokens: readonly number[] }[];
  };
  const scores = (kvCacheDtype: KvType): number[] =>
    withCore(join(repositoryRoot(), "models/mill-base.gguf"), { kvCacheDtype }, (core) =>
      chats["mill-base"].flatMap(({ tokens }) => {
        const { promptLogprobs } = runAlone(core, request(tokens, { maxTokens: 1, numPromptLogprobs: 0 }));
        return promptLogprobs!.slice(1).map((logprob) => logprob!.logprob);
      }),
    );
  const exact = scores("f32");
  const meanError = (kvType: KvType): number =>
    scores(kvType).reduce((sum, score, i) => sum + Math.abs(score - exact[i]!), 0) / exact.length;
  // 0.0004 and 0.008 nats when this was written.
  expect(meanError("f16")).toBeLessThan(0.005);
  expect(meanError("int8")).toBeLessThan(0.02);
});
