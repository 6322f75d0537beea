/** The choice among measured splits, some of which cannot start, and its place in the cache. */
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { modelSpec } from "../../../test/helpers/fleet.js";
import { parseConfig } from "../../fleet/config/read-config.js";
import type { Split } from "../../fleet/scaling/instance-plan.js";
import { bestSplit, gpuModels } from "./best-split.js";
import { splitForModel } from "./split-for-model.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "best-split-"));
  vi.stubEnv("MILLRACE_CACHE", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const question = (measure: (split: Split) => Promise<number>) => ({
  modelPath: "no-file",
  numUnits: 4,
  concurrency: 4,
  conditions: "test",
  measure: async (split: Split) => ({ ...split, tokensPerS: await measure(split) }),
});

test("a split that cannot start loses, is told, and is not measured at the next start", async () => {
  const tooLarge = async ({ instances }: Split): Promise<number> => {
    if (instances === 4) throw new Error("no memory");
    return instances;
  };
  const told: unknown[] = [];
  const { chosen, wasKnown } = await bestSplit(question(tooLarge), (split, error) => {
    told.push([split.instances, split.tokensPerS, error instanceof Error ? error.message : error]);
  });
  expect({ instances: chosen.instances, wasKnown }).toEqual({ instances: 2, wasKnown: false });
  expect(told).toEqual([
    [1, 1, undefined],
    [2, 2, undefined],
    [4, 0, "no memory"],
  ]);
  const never = vi.fn();
  expect(await bestSplit(question(never), never)).toMatchObject({ chosen: { instances: 2 }, wasKnown: true });
  expect(never).not.toHaveBeenCalled();
});

test("without any split the last error is thrown, and nothing is stored", async () => {
  const fails = vi.fn(async () => Promise.reject(new Error("no device")));
  for (const numCalls of [3, 6]) {
    await expect(bestSplit(question(fails), () => {})).rejects.toThrow("no device");
    expect(fails).toHaveBeenCalledTimes(numCalls);
  }
});

test("another engine's program is measured once, and its next version anew", async () => {
  const program = join(folder, "engine");
  const server = `require("node:http").createServer((request, response) => response.end('{"usage":{"completion_tokens":7}}'))
    .listen(process.argv[process.argv.indexOf("--port") + 1], "127.0.0.1");`;
  writeFileSync(program, `#!${process.execPath}\n${server}`, { mode: 0o755 });
  const { models } = parseConfig("models: [{name: m, engine: vllm, model: org/m, instances: auto}]", "x", {});
  const told: string[] = [];
  const tell = (text: string): void => void told.push(text);
  const subject = { specFor: () => modelSpec({ program: [program] }) };
  const place = { cores: [[]], isServing: false };
  const split = () =>
    splitForModel(models[0]!, "org/m", place, subject, () => ({ update: () => {}, done: tell, note: tell }));
  await split();
  await split();
  utimesSync(program, 1, 1);
  await split();
  const isKnown = told.map((text) => text.includes("measured before"));
  expect(isKnown, told.join("\n")).toEqual([false, true, false]);
});

test("GPUs are named by NVIDIA's driver", () => {
  const gpu = join(folder, "gpus", "0000:01:00.0");
  mkdirSync(gpu, { recursive: true });
  writeFileSync(join(gpu, "information"), "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t 24\n");
  expect(gpuModels(join(folder, "gpus"))).toEqual(["NVIDIA H100 80GB HBM3"]);
  expect(gpuModels(join(folder, "none"))).toEqual([]);
});
