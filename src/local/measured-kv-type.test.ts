import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import type { StartStage } from "../core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import { measuredKvType, smallestWithin } from "./measured-kv-type.js";

afterEach(() => vi.unstubAllEnvs());

function tinyModel(): string {
  const path = join(tempTree({}), "model.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 2, layers: 1, width: 32, ff: 32, heads: 1, kvHeads: 1 });
  return path;
}

const optionsOf = (modelPath: string) =>
  ({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, maxModelLen: 256 }) as const;

/** An empty cache, and starts that ask for a model file's type. */
function asking(path: string) {
  const cache = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", cache);
  const said: string[] = [];
  const startStage: StartStage = () => ({ update: () => {}, done: (text) => said.push(text), note: () => {} });
  const ask = () => measuredKvType(optionsOf(path), [path], startStage);
  const kept = (): string[] => readdirSync(join(cache, "kv-types")).filter((name) => name.endsWith(".json"));
  return { ask, said, cache, kept };
}

test("the smallest type within both bounds is chosen, else f16", () => {
  const loss = (kvType: "f16" | "int8" | "fp4", changedShare: number, meanKl: number) => {
    return { kvType, bytesPerToken: 1, changedShare, meanKl };
  };
  const f16 = loss("f16", 0, 0);
  expect(smallestWithin([loss("fp4", 0.01, 0.002), loss("int8", 0, 0), f16]).kvType).toBe("fp4");
  expect(smallestWithin([loss("fp4", 0.011, 0), loss("int8", 0, 0.001), f16]).kvType).toBe("int8");
  expect(smallestWithin([loss("fp4", 0, 0.0021), loss("int8", 0.02, 0), f16])).toBe(f16);
});

test("instances that start together agree on one measurement; later starts read it", async () => {
  const { ask, said, kept } = asking(tinyModel());
  const chosen = await Promise.all([ask(), ask(), ask()]);
  expect(new Set(chosen).size).toBe(1);
  expect(said.filter((text) => text.endsWith("measured now"))).toHaveLength(1);
  expect(await ask()).toBe(chosen[0]);
  expect(said.at(-1)).toMatch(/measured before$/);
  expect(kept()).toHaveLength(1);
});

test("a changed model and a damaged record are measured again", async () => {
  const path = tinyModel();
  const { ask, said, cache, kept } = asking(path);
  const first = await ask();
  writeFileSync(
    join(cache, "kv-types", kept()[0]!),
    '[{"kvType":"fp2","bytesPerToken":1,"changedShare":0,"meanKl":0}]',
  );
  expect(await ask()).toBe(first);
  utimesSync(path, 1, 1);
  expect(await ask()).toBe(first);
  expect(said.filter((text) => text.endsWith("measured now"))).toHaveLength(3);
  expect(kept()).toHaveLength(2);
});

test("where nothing can be kept, each start measures", async () => {
  const path = tinyModel();
  const said: string[] = [];
  vi.stubEnv("MILLRACE_CACHE", join(tempTree({ file: "" }), "file"));
  const notes: string[] = [];
  const stage = { update: () => {}, done: (text: string) => said.push(text), note: (text: string) => notes.push(text) };
  await measuredKvType(optionsOf(path), [path], () => stage);
  expect(said).toEqual([expect.stringMatching(/measured now$/)]);
  expect(notes).toContainEqual(expect.stringMatching(/cannot be kept, so each start measures: ENOTDIR/));
});
