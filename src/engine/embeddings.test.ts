/** Pooled hidden states: what they are, and that nothing around a request changes a bit of them. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  type Completion,
  collect,
  inTurn,
  poolingRequest,
  request,
  runAlone,
} from "../../test/helpers/engine-requests.js";
import { leastKvBudget } from "../../test/helpers/kv-memory.js";
import { type RandomModelOptions, writeRandomModel } from "../../test/helpers/random-model.js";
import { TestRng } from "../../test/helpers/rng.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { readGguf } from "../formats/gguf/read.js";
import { POOLINGS } from "../model/description/pooling.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import type { EngineRequest } from "./api/request.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-embeddings-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function modelPath(options: RandomModelOptions): string {
  const path = join(folder, `${options.architecture}-${options.type ?? "F32"}.gguf`);
  writeRandomModel(path, options);
  return path;
}

async function withCore<T>(
  path: string,
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => T | Promise<T>,
): Promise<T> {
  const backend = createCpuBackend({ numThreads: 2 });
  try {
    const fixed = { modelPath: path, numThreads: 2, maxModelLen: 128, kvCacheMemoryBytes: 2 ** 24 };
    return await use(
      await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...fixed, ...options }, backend),
    );
  } finally {
    backend.destroy();
  }
}

const rng = new TestRng(5);
const randomIds = (length: number) => Array.from({ length }, () => rng.int(0, 299));

async function runTogether(core: EngineCore, requests: readonly EngineRequest[]): Promise<Map<number, Completion>> {
  const completions = new Map<number, Completion>();
  for (let step = 0; step < requests.length || core.hasWork; step++) {
    const arriving = requests[step];
    if (arriving !== undefined) core.add(step, arriving);
    if (!core.hasWork) continue;
    for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
  }
  return completions;
}

describe("a pooled vector", () => {
  it("of the last position is what the model's next token is chosen from", async () => {
    const path = modelPath({ architecture: "qwen3", seed: 1 });
    const { tensors } = readGguf(path);
    const table = tensors.get("token_embd.weight")!;
    const [width = 0, vocabSize = 0] = table.shape;
    const bytes = readFileSync(path).subarray(table.byteOffset);
    await withCore(path, {}, async (core) => {
      const promptIds = randomIds(20);
      const { tokenIds } = await runAlone(core, request(promptIds, { maxTokens: 1 }));
      const { pooled } = await runAlone(core, poolingRequest(promptIds, "last"));
      const scores = Array.from({ length: vocabSize }, (_, row) =>
        pooled!.reduce((sum, value, i) => sum + value * bytes.readFloatLE((row * width + i) * 4), 0),
      );
      expect(scores.indexOf(Math.max(...scores))).toBe(tokenIds[0]);
    });
  });

  it("that is a mean is the mean of the prefixes' last ones", async () => {
    await withCore(modelPath({ architecture: "llama", seed: 2 }), {}, async (core) => {
      const promptIds = randomIds(37);
      const { pooled } = await runAlone(core, poolingRequest(promptIds, "mean"));
      const sums = new Float64Array(core.info.embeddingWidth);
      for (let length = 1; length <= promptIds.length; length++) {
        const last = (await runAlone(core, poolingRequest(promptIds.slice(0, length), "last"))).pooled!;
        for (let i = 0; i < sums.length; i++) sums[i]! += last[i]!;
      }
      expect(pooled).toEqual(sums.map((sum) => sum / promptIds.length));
    });
  });

  it("of the last position comes from the prefix cache, a mean does not", async () => {
    await withCore(modelPath({ architecture: "llama", seed: 2 }), {}, async (core) => {
      const promptIds = randomIds(50);
      const first = await runAlone(core, poolingRequest(promptIds, "last"));
      const second = await runAlone(core, poolingRequest(promptIds, "last"));
      expect(second).toEqual({ ...first, numCachedTokens: 48 });
      expect((await runAlone(core, poolingRequest(promptIds, "mean"))).numCachedTokens).toBe(0);
    });
  });
});

describe("the kind of pooling", () => {
  it.each([
    ["auto", 0, "last"],
    ["auto", 1, "mean"],
    ["auto", 3, "last"],
    ["auto", 2, "last"],
    ["last", 1, "last"],
    ["mean", 0, "mean"],
  ] as const)("of --pooling %s and code %i is %s", async (pooling, poolingType, wanted) => {
    const path = modelPath({ architecture: "llama", seed: 2, poolingType });
    await withCore(path, { pooling }, ({ info }) => expect(info.pooling).toBe(wanted));
  });
});

describe("nothing else changes a bit", () => {
  const models: readonly RandomModelOptions[] = [
    { architecture: "llama", seed: 3, type: "Q4_0" },
    { architecture: "gemma3", seed: 4, type: "F16" },
  ];
  it.each(models)("beside others, in chunks, pre-empted: $architecture $type", async (model) => {
    const path = modelPath(model);
    const prefix = randomIds(40);
    const requests = Array.from({ length: 24 }, (_, index): EngineRequest => {
      const promptIds = [...(index % 2 === 0 ? prefix : []), ...randomIds(1 + ((index * 7) % 60))];
      const pooling = POOLINGS[index % 4];
      return pooling === undefined ? request(promptIds, { maxTokens: 30 }) : poolingRequest(promptIds, pooling);
    });
    const options = { maxNumSeqs: 1, enablePrefixCaching: false };
    const alone = await withCore(path, options, (core) => inTurn(requests, (each) => runAlone(core, each)));
    let numPreemptions = 0;
    for (const maxNumBatchedTokens of [9, 31, 200]) {
      const options = { ...DEFAULT_ENGINE_OPTIONS, maxNumSeqs: 8, maxModelLen: 128, maxNumBatchedTokens };
      const { kvBytes } = leastKvBudget(path, 9, options);
      const crowded = { maxNumSeqs: 8, maxNumBatchedTokens, kvCacheMemoryBytes: kvBytes };
      await withCore(path, crowded, async (core) => {
        const together = await runTogether(core, requests);
        alone.forEach((wanted, index) => {
          const got = together.get(index);
          expect(got?.tokenIds).toEqual(wanted.tokenIds);
          expect(got?.pooled).toEqual(wanted.pooled);
        });
        numPreemptions += core.stats().numPreemptions;
      });
    }
    expect(numPreemptions).toBeGreaterThan(0);
  });
});
