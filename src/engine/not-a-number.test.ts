/**
 * Weights that are no numbers: the request that meets them fails with its code, and the others' answers stay what they
 * are.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type Completion, collect, poolingRequest, request, runAlone } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { readGguf } from "../formats/gguf/read.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import { NO_SPECULATION } from "./api/speculative-config.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-not-a-number-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const DAMAGED_TOKEN = 120;

/** A model whose embedding of one token is NaN. */
function damagedModel(): string {
  const path = join(folder, "damaged.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 3 });
  const table = readGguf(path).tensors.get("token_embd.weight")!;
  const width = table.shape[0]!;
  const bytes = readFileSync(path);
  for (let i = 0; i < width; i++) bytes.writeFloatLE(Number.NaN, table.byteOffset + 4 * (DAMAGED_TOKEN * width + i));
  writeFileSync(path, bytes);
  return path;
}

async function withCore(
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => void | Promise<void>,
): Promise<void> {
  const path = damagedModel();
  const backend = createCpuBackend({ numThreads: 2 });
  try {
    const fixed = { modelPath: path, numThreads: 2, maxModelLen: 128, kvCacheMemoryBytes: 2 ** 22 };
    await use(await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...fixed, ...options }, backend));
  } finally {
    backend.destroy();
  }
}

it("fails the request whose prompt is scored with them, though it generates nothing", async () => {
  await withCore({ speculative: NO_SPECULATION }, async (core) => {
    const scored = { maxTokens: 0, numPromptLogprobs: 2 };
    core.add(1, request(SOUND, scored));
    core.add(2, request(DAMAGED, scored));
    const completions = new Map<number, Completion>();
    const failures = [];
    while (core.hasWork) {
      for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
      failures.push(...core.takeFailures());
    }
    expect(failures).toMatchObject([{ requestId: 2, error: { code: "not_a_number" } }]);
    expect(failures[0]?.error.message).toMatch(/expected numbers in the logits of token 3, got NaN/);
    expect([...completions.keys()]).toEqual([1]);
    expect(completions.get(1)?.promptLogprobs).toHaveLength(SOUND.length);
  });
});

const SOUND = [5, 6, 7, 5, 6, 7, 5, 6];
const DAMAGED = [5, 6, DAMAGED_TOKEN, 7];

for (const method of ["none", "ngram"] as const) {
  it(`fails the request that meets them (drafts: ${method})`, async () => {
    await withCore({ speculative: { ...NO_SPECULATION, method, isAdaptive: false } }, async (core) => {
      const wanted = await runAlone(core, request(SOUND, { maxTokens: 12 }));
      const completions = new Map<number, Completion>();
      core.add(1, request(SOUND, { maxTokens: 12 }));
      core.add(2, request(DAMAGED, { maxTokens: 12 }));
      core.add(3, request(DAMAGED, { maxTokens: 12, temperature: 1, topP: 0.9, numLogprobs: 3 }));
      core.add(4, poolingRequest(DAMAGED, "mean"));
      const failures = [];
      while (core.hasWork) {
        for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
        failures.push(...core.takeFailures());
      }
      expect(failures.map(({ requestId, error }) => [requestId, error.code])).toEqual(
        [2, 3, 4].map((id) => [id, "not_a_number"]),
      );
      expect(failures[0]?.error.message).toMatch(/expected numbers in the logits of token 4, got NaN/);
      expect([...completions.keys()]).toEqual([1]);
      expect(completions.get(1)?.tokenIds).toEqual(wanted.tokenIds);
      expect(core.stats()).toMatchObject({ numRunning: 0, numWaiting: 0, numUsedKvBlocks: 0 });
    });
  });
}
