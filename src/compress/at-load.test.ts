import { copyFileSync, existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { convertModel } from "../convert/convert.js";
import { silentStages } from "../core/stages.js";
import { openModel } from "../model/open-model.js";
import { methodOf, quantisedCopy } from "./at-load.js";

afterEach(() => vi.unstubAllEnvs());

test("names of other servers stand for types, and unknown ones for none", () => {
  expect(["int8", "INT4", "q6_k", "Q5_K_M", "fp8", "fp16", ""].map(methodOf)).toEqual([
    "Q8_0",
    "Q4_K_M",
    "Q6_K",
    "Q5_K_M",
    "FP8",
    undefined,
    undefined,
  ]);
});

test("a folder's copy is made again when its chat template has changed; what a stopped process left is removed", async () => {
  const root = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", join(root, "cache"));
  const model = join(root, "model");
  await convertModel({ model: join(repositoryRoot(), "models/mill-student.gguf"), out: model, type: "BF16" });
  const ask = () => quantisedCopy(model, "FP8", 1, silentStages);
  const first = await ask();
  expect(await ask()).toBe(first);
  const [fresh, old] = ["partial-young", "partial-old"].map((name) => `${first}.${name}`);
  for (const each of [fresh!, old!]) mkdirSync(each);
  utimesSync(old!, 1, 1);
  writeFileSync(join(model, "tokenizer_config.json"), '{"chat_template": "NEW"}');
  const second = await ask();
  expect(second).not.toBe(first);
  expect([first, fresh!, old!].map((path) => existsSync(path))).toEqual([false, true, false]);
});

test.each(["INT8", "INT4", "FP8"])("a model with recurrent layers is served in %s", async (name) => {
  const root = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", join(root, "cache"));
  const model = join(root, "model.gguf");
  writeRandomModel(model, { architecture: "qwen35", seed: 1 });
  const copy = openModel(await quantisedCopy(model, methodOf(name)!, 1, silentStages));
  expect(copy.config.layers).toHaveLength(4);
  expect(copy.summary.weightBytes).toBeLessThan(0.5 * openModel(model).summary.weightBytes);
});

test("a cache that cannot be made is refused with its name", async () => {
  const root = tempTree({ file: "" });
  vi.stubEnv("MILLRACE_CACHE", join(root, "file"));
  const copy = quantisedCopy(join(repositoryRoot(), "models/mill-student.gguf"), "Q8_0", 1, silentStages);
  await expect(copy).rejects.toThrow(/expected to keep copies in .*file.quantized, got ENOTDIR/);
});

test("a cache without room is named, and not an option that nobody gave", async () => {
  const root = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", join(root, "cache"));
  const full = () => {
    throw Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
  };
  const stage = () => ({ update: full, done: () => {}, note: () => {} });
  const copy = quantisedCopy(join(repositoryRoot(), "models/mill-student.gguf"), "Q4_0", 1, stage);
  await expect(copy).rejects.toMatchObject({
    message: expect.stringMatching(/^expected to keep copies in .*cache.quantized, got ENOSPC: no space left$/),
    hint: expect.stringContaining("MILLRACE_CACHE"),
  });
});

test("a copy is made once, whoever asks, and again when the model has changed", async () => {
  const root = tempTree({});
  vi.stubEnv("MILLRACE_CACHE", join(root, "cache"));
  const model = join(root, "model.gguf");
  copyFileSync(join(repositoryRoot(), "models/mill-student.gguf"), model);
  const ask = () => quantisedCopy(model, "Q8_0", 1, silentStages);
  const copies = await Promise.all([ask(), ask(), ask()]);
  expect(new Set(copies).size).toBe(1);
  expect(openModel(copies[0]!).summary.weightType).toBe("Q8_0");
  const folder = join(root, "cache", "quantized");
  expect(readdirSync(folder)).toHaveLength(1);
  utimesSync(model, 1, 1);
  const changed = await ask();
  expect(changed).not.toBe(copies[0]);
  expect(readdirSync(folder)).toEqual([changed.slice(folder.length + 1)]);
});
