import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { inTurn, request, runAlone } from "../../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../api/options.js";
import { NO_SPECULATION } from "../api/speculative-config.js";
import { EngineCore } from "../engine-core.js";

const PROMPT = Array.from({ length: 100 }, (_, i) => (i * 37 + 5) % 200);
/** Blocks of sixteen tokens that a second request for PROMPT can use. */
const NUM_BLOCKS = 6;

let models = "";
let folder = "";
beforeAll(() => {
  models = mkdtempSync(join(tmpdir(), "millrace-disk-tier-model-"));
  writeRandomModel(join(models, "model.gguf"), { architecture: "llama", seed: 1, type: "F16", contextLength: 512 });
  writeRandomModel(join(models, "other.gguf"), { architecture: "llama", seed: 2, type: "F16", contextLength: 512 });
});
afterAll(() => rmSync(models, { recursive: true, force: true }));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-disk-tier-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A process's life: opens the model, runs `use`, and ends. */
async function live<T>(
  use: (core: EngineCore) => T | Promise<T>,
  options: Partial<EngineOptions> = {},
  notes: string[] = [],
): Promise<T> {
  const modelPath = options.modelPath ?? join(models, "model.gguf");
  const backend = createCpuBackend({ numThreads: 1 });
  const disk = { folder, maxBytes: 2 ** 30 };
  const all = { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1, prefixCacheDisk: disk, speculative: NO_SPECULATION };
  const report = { progress: () => {}, note: (text: string) => notes.push(text) };
  const core = await EngineCore.create(
    openModel(modelPath),
    { ...all, kvCacheMemoryBytes: 2 ** 24, ...options, modelPath },
    backend,
    report,
  );
  try {
    return await use(core);
  } finally {
    await core.close();
    backend.destroy();
  }
}

const ask = (core: EngineCore, salt = "") =>
  runAlone(core, { ...request(PROMPT, { numLogprobs: 3 }), cacheSalt: salt });
const blockFiles = (): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".kv"))
    .map((name) => join(folder, name));

describe("prefixes on disk", () => {
  test("a later process continues with what an earlier one left, with the same bits", async () => {
    const first = await live((core) => ask(core));
    expect(first.numCachedTokens).toBe(0);
    const second = await live((core) => ask(core));
    expect(second.numCachedTokens).toBe(16 * NUM_BLOCKS);
    expect(second.tokenIds).toEqual(first.tokenIds);
    expect(second.logprobs).toEqual(first.logprobs);
  });

  test("files are for their owner only, and their names tell nothing that repeats under another secret", async () => {
    await live((core) => ask(core));
    const files = blockFiles();
    expect(files.length).toBeGreaterThanOrEqual(NUM_BLOCKS);
    for (const file of [...files, join(folder, "secret")]) expect(statSync(file).mode & 0o777).toBe(0o600);
    const names = new Set(files.map((file) => file.slice(folder.length)));
    rmSync(folder, { recursive: true });
    await live((core) => ask(core));
    for (const file of blockFiles()) expect(names.has(file.slice(folder.length))).toBe(false);
  });

  test("another salt, another model, another KV type and another block size find nothing", async () => {
    await live((core) => ask(core));
    expect((await live((core) => ask(core, "tenant"))).numCachedTokens).toBe(0);
    for (const options of [
      { modelPath: join(models, "other.gguf") },
      { kvCacheDtype: "f32" },
      { blockSize: 8 },
    ] as const) {
      expect((await live((core) => ask(core), options)).numCachedTokens).toBe(0);
    }
    expect((await live((core) => ask(core))).numCachedTokens).toBe(16 * NUM_BLOCKS);
  });

  test("a damaged, cut, emptied or swapped file is a miss, and is replaced", async () => {
    const first = await live((core) => ask(core));
    for (const damage of [
      (file: string) => {
        const bytes = readFileSync(file);
        bytes[bytes.length >> 1]! ^= 1;
        writeFileSync(file, bytes);
      },
      (file: string) => writeFileSync(file, readFileSync(file).subarray(0, 100)),
      (file: string) => writeFileSync(file, ""),
      (file: string) => writeFileSync(file, readFileSync(blockFiles().find((other) => other !== file)!)),
    ]) {
      const [file] = blockFiles();
      damage(file!);
      const again = await live((core) => ask(core));
      expect(again.numCachedTokens).toBeLessThanOrEqual(16 * NUM_BLOCKS);
      expect(again.logprobs).toEqual(first.logprobs);
      expect((await live((core) => ask(core))).numCachedTokens).toBe(16 * NUM_BLOCKS);
    }
    for (const file of blockFiles()) writeFileSync(file, "");
    const last = await live((core) => ask(core));
    expect(last.numCachedTokens).toBe(0);
    expect(last.logprobs).toEqual(first.logprobs);
  });

  test("what a killed process left half written is not taken for a block", async () => {
    await live((core) => ask(core));
    const [file] = blockFiles();
    writeFileSync(`${file}.0123.tmp`, readFileSync(file!).subarray(0, 10));
    expect((await live((core) => ask(core))).numCachedTokens).toBe(16 * NUM_BLOCKS);
  });

  test("stays within its size, the longest unused going first", async () => {
    const blockBytes = await live((core) => core.info.kvBytes / core.info.numKvBlocks);
    const maxBytes = 20 * blockBytes;
    const prompts = Array.from({ length: 8 }, (_, i) => PROMPT.map((id) => (id + i + 1) % 200));
    await live((core) => inTurn(prompts, (ids) => runAlone(core, request(ids))), {
      prefixCacheDisk: { folder, maxBytes },
    });
    await live(() => {}, { prefixCacheDisk: { folder, maxBytes } });
    const numBytes = blockFiles().reduce((sum, file) => sum + statSync(file).size, 0);
    expect(numBytes).toBeLessThanOrEqual(maxBytes);
    expect(numBytes).toBeGreaterThan(maxBytes / 2);
  });

  test("writes that end while no step runs are counted", async () => {
    await live(async (core) => {
      await ask(core);
      while (core.tidy()) {}
      // The answer's 16 tokens complete one more block.
      await vi.waitFor(() => expect(core.stats().prefixCacheDisk.numWritten).toBe(NUM_BLOCKS + 1), 10_000);
    });
  });

  test("a folder that cannot be written is said once, and requests go on", async () => {
    const notes: string[] = [];
    await live(
      async (core) => {
        // A file in the folder's place stops root too.
        rmSync(folder, { recursive: true });
        writeFileSync(folder, "");
        expect((await ask(core)).tokenIds.length).toBe(16);
      },
      {},
      notes,
    );
    expect(notes).toEqual([expect.stringContaining("cannot be written")]);
  });
});
