import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { KV_TYPES } from "../backend/ops.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { kvTypeLosses } from "./kv-type-losses.js";

const inRepository = (path: string): string => join(repositoryRoot(), path);
const ids = Array.from({ length: 600 }, (_, i) => (i * 97 + 13) % 288);

function lossesOf(modelPath: string, numThreads: number, maxModelLen?: number) {
  return kvTypeLosses({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads, maxModelLen }, ids, () => {});
}

test.each([
  "models/mill-student.gguf",
  "test/fixtures/hf/llama",
])("%s loses more with fewer bits, and the same with any number of threads", async (model) => {
  const losses = await lossesOf(inRepository(model), 1, 256);
  const kls = new Map(losses.map(({ kvType, meanKl }) => [kvType, meanKl]));
  const bytes = losses.map(({ bytesPerToken }) => bytesPerToken);
  expect(bytes).toEqual([...bytes].sort((a, b) => a - b));
  const ordered = ["f16", "int8", "fp8_e4m3", "fp8_e5m2", "fp4"] as const;
  expect(new Set(kls.keys())).toEqual(new Set(KV_TYPES.filter((kvType) => kvType !== "f32")));
  expect(kls.get("f16")).toBe(0);
  for (const [i, kvType] of ordered.slice(1).entries()) {
    expect(kls.get(kvType), kvType).toBeGreaterThan(kls.get(ordered[i]!)!);
  }
  expect(await lossesOf(inRepository(model), 2, 256)).toEqual(losses);
});

test("an encoder and a short context are refused", async () => {
  const refusal = (expected: RegExp) => ({ code: "invalid_option", message: expect.stringMatching(expected) });
  const short = join(tempTree({}), "short.gguf");
  writeRandomModel(short, { architecture: "llama", seed: 1, contextLength: 128 });
  await expect(lossesOf(short, 1)).rejects.toMatchObject(refusal(/at least 256 tokens .*, got 128/));
  const encoder = lossesOf(inRepository("test/fixtures/hf-encoders/bert"), 1);
  await expect(encoder).rejects.toMatchObject(refusal(/generates text .*, got an encoder/));
});

test("the event loop has its turns meanwhile, so that locks stay alive", async () => {
  let numTurns = 0;
  const turn = (): void => {
    numTurns++;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  await lossesOf(inRepository("test/fixtures/hf/llama"), 1, 256);
  clearImmediate(next);
  expect(numTurns).toBeGreaterThan(20);
});
