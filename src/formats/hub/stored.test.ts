import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { startHubServer } from "../../../test/helpers/hub-server.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { resolveModelPath } from "../hub.js";
import { listStored, removeStored } from "./stored.js";

/** A cache as downloads leave it. */
function cacheWith(...paths: readonly string[]): string {
  const cache = tempTree({});
  for (const path of paths) {
    mkdirSync(dirname(join(cache, "hub", path)), { recursive: true });
    writeFileSync(join(cache, "hub", path), "12345");
  }
  return cache;
}

const CACHE = [
  "org/a/main/listing.json",
  "org/a/main/a-Q4_K_M.gguf",
  "org/a/main/sub/a-Q8_0-00001-of-00002.gguf",
  "org/a/main/sub/a-Q8_0-00002-of-00002.gguf",
  "org/b/refs--pr--1/listing.json",
  "org/b/refs--pr--1/config.json",
  "org/b/refs--pr--1/model.safetensors",
  "org/c/main/listing.json",
  "org/c/main/c.gguf.0123456789ab.part",
];

test("each model in the cache has the name that --model takes, its size, and whether it is whole", async () => {
  const models = await listStored(cacheWith(...CACHE));
  expect(models.map(({ name, format, numBytes, isComplete }) => [name, format, numBytes, isComplete])).toEqual([
    ["hf:org/a:a-Q4_K_M.gguf", "GGUF", 5, true],
    ["hf:org/a:sub/a-Q8_0-00001-of-00002.gguf", "GGUF", 10, true],
    ["hf:org/b@refs/pr/1", "safetensors", 15, true],
    ["hf:org/c", "GGUF", 5, false],
  ]);
  expect(models.at(-1)?.resumes).toBe("hf:org/c:c.gguf");
  expect(await listStored(join(tempTree({}), "none"))).toEqual([]);
});

test("a folder of safetensors is whole once every file of its index is there and none is on its way", async () => {
  const cache = cacheWith("org/d/main/listing.json", "org/d/main/config.json");
  const path = (name: string) => join(cache, "hub/org/d/main", name);
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
  const index = { weight_map: { a: shards[0], b: shards[1] } };
  const listed = async () => (await listStored(cache)).map(({ name, isComplete }) => [name, isComplete]);
  writeFileSync(path("model.safetensors.index.json"), JSON.stringify(index));
  writeFileSync(path(shards[0]), "12345");
  expect(await listed()).toEqual([["hf:org/d", false]]);
  writeFileSync(path(`${shards[1]}.0123456789ab.part`), "123");
  expect(await listed()).toEqual([["hf:org/d", false]]);
  writeFileSync(path(shards[1]), "12345");
  expect(await listed()).toEqual([["hf:org/d", false]]);
  rmSync(path(`${shards[1]}.0123456789ab.part`));
  expect(await listed()).toEqual([["hf:org/d", true]]);
  writeFileSync(path("model.safetensors.index.json"), "{");
  expect(await listed()).toEqual([["hf:org/d", false]]);
});

test("a model is removed by its name; the last one takes its folder along, and others stay", async () => {
  const cache = cacheWith(...CACHE);
  const has = (path: string) => existsSync(join(cache, "hub", path));
  expect(await removeStored("hf:org/a:Q8_0", cache)).toEqual({ numFiles: 2, numBytes: 10 });
  expect([has("org/a/main/a-Q4_K_M.gguf"), has("org/a/main/listing.json")]).toEqual([true, true]);
  await removeStored("hf:org/a:a-Q4_K_M.gguf", cache);
  expect([has("org/a"), has("org/b")]).toEqual([false, true]);
  await removeStored("hf:org/b@refs/pr/1", cache);
  await removeStored("hf:org/c", cache);
  expect([await listStored(cache), has("org")]).toEqual([[], false]);
});

test("what is not there is told with what is, and nothing outside the cache can be named", async () => {
  const cache = cacheWith(...CACHE);
  for (const name of ["hf:org/none", "hf:org/a:Q2_K"]) {
    const refusal = { code: "model_not_found", message: expect.stringContaining("hf:org/a:a-Q4_K_M.gguf") };
    await expect(removeStored(name, cache)).rejects.toMatchObject(refusal);
  }
  for (const name of ["hf:../..", "hf:org/..", "hf:org/a:../../b", "hf:org/a@.."]) {
    await expect(removeStored(name, cache)).rejects.toMatchObject({ code: "hub_spec" });
  }
  expect(await listStored(cache)).toHaveLength(4);
});

test("a start from the cache counts as a use", async () => {
  const cacheDir = tempTree({});
  const hub = await startHubServer({ "org/m": { files: { "m.gguf": Buffer.from("weights") } } });
  const options = { cacheDir, endpoint: hub.endpoint, token: "" };
  await resolveModelPath("hf:org/m", options);
  await hub.close();
  utimesSync(join(cacheDir, "hub/org/m/main/listing.json"), 1000, 1000);
  expect((await listStored(cacheDir))[0]?.lastUsedMs).toBe(1_000_000);
  const before = Date.now();
  await resolveModelPath("hf:org/m", options);
  expect((await listStored(cacheDir))[0]?.lastUsedMs).toBeGreaterThanOrEqual(before - 1000);
});
