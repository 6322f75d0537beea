/**
 * Encoders and embedding models: vectors and scores are those of transformers (test/fixtures/make-hf-encoders.py), and
 * what an encoder cannot do is refused. That a text's bits are its own is tested in test/exact/encoders.test.ts.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { poolingRequest, request, runAlone } from "../../test/helpers/engine-requests.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { checkRequest } from "./admission.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import type { EngineRequest } from "./api/request.js";
import { EngineCore } from "./engine-core.js";

interface Expected {
  readonly tokens: readonly number[];
  readonly secondTextStart?: number;
  readonly vector: readonly number[];
}

const names = readdirSync(fixture("hf-encoders"));
const folderOf = (name: string) => fixture(`hf-encoders/${name}`);
const expectedOf = (name: string): readonly Expected[] =>
  JSON.parse(readFileSync(join(folderOf(name), "expected.json"), "utf8"));

/** F32 sums in another order, over a few layers. */
const TOLERANCE = 2e-5;

async function withCore<T>(
  name: string,
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => T | Promise<T>,
): Promise<T> {
  const { numThreads = 2, activationDtype = "auto" } = options;
  const backend = createCpuBackend({ numThreads, activationDtype });
  try {
    const path = folderOf(name);
    const fixed = { modelPath: path, numThreads, kvCacheMemoryBytes: 2 ** 22, kvCacheDtype: "f32" } as const;
    return await use(
      await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...fixed, ...options }, backend),
    );
  } finally {
    backend.destroy();
  }
}

function requestFor(core: EngineCore, { tokens, secondTextStart }: Omit<Expected, "vector">): EngineRequest {
  const asked = poolingRequest(tokens, core.info.pooling);
  return secondTextStart === undefined ? asked : { ...asked, secondTextStart };
}

describe("vectors are those of transformers", () => {
  it.each(names)("%s", async (name) => {
    await withCore(name, { activationDtype: "f32" }, async (core) => {
      for (const text of expectedOf(name)) {
        const { pooled } = await runAlone(core, requestFor(core, text));
        expect(pooled).toHaveLength(text.vector.length);
        expect(core.info.embeddingWidth).toBe(text.vector.length);
        const errors = text.vector.map((value, i) => Math.abs(value - pooled![i]!));
        expect(Math.max(...errors), `${text.tokens.length} tokens`).toBeLessThan(TOLERANCE);
      }
    });
  });
});

describe("an encoder", () => {
  it("computes the longest text in one step, whatever the token budget, and refuses a longer one", async () => {
    await withCore("bert", { maxNumBatchedTokens: 8, maxNumSeqs: 4 }, async (core) => {
      expect(core.info).toMatchObject({ maxModelLen: 48, isCausal: false, tasks: ["embed"], pooling: "mean" });
      core.add(1, poolingRequest(new Array<number>(48).fill(7), "mean"));
      expect(await core.step()).toHaveLength(1);
      expect(core.hasWork).toBe(false);
      const tooLong = poolingRequest(new Array<number>(49).fill(7), "mean");
      expect(() => checkRequest(tooLong, core.info)).toThrow(/maximum context length is 48 tokens/);
    });
  });

  it("has as many positions as its table has rows after those of the padding", () => {
    expect(openModel(folderOf("xlm_roberta")).config).toMatchObject({
      contextLength: 48,
      positionTable: { numRows: 50, firstRow: 2 },
    });
  });

  it("generates nothing", async () => {
    await withCore("bert_rank", {}, ({ info }) => {
      expect(info).toMatchObject({ tasks: ["rerank"], embeddingWidth: 1 });
      expect(() => checkRequest(request([5]), info)).toThrow(
        expect.objectContaining({
          code: "wrong_task",
          message: "expected a model that generates text, got one that scores texts against a query (bert)",
        }),
      );
    });
  });

  it.each([
    [{ prefixCacheDisk: { folder: "/nowhere", maxBytes: 1 } }, /prefix-cache-disk/],
    [{ speculative: { ...DEFAULT_ENGINE_OPTIONS.speculative, method: "suffix" } }, /speculative-config/],
  ] as const)("refuses options of text generation: %s", async (options, message) => {
    await expect(withCore("bert", options, () => {})).rejects.toThrow(message);
  });

  it.each([
    "bert_rank",
    "qwen3_rank",
    "gemma_embedding",
  ])("%s refuses another pooling than its head's", async (name) => {
    const { pooling } = openModel(folderOf(name)).config;
    const another = pooling === "cls" ? "mean" : "cls";
    const message = `expected --pooling auto or ${pooling} for a model with layers behind its pooling, got ${another}`;
    await expect(withCore(name, { pooling: another }, () => {})).rejects.toThrow(message);
    await withCore(name, { pooling: pooling! }, ({ info }) => expect(info.pooling).toBe(pooling));
  });
});
