import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { type EngineReport, fitPoints, fittedEfficiencies } from "./calibrate.js";
import type { Cpu } from "./data/device.js";
import { KV_TYPES } from "./data/quantizations.js";
import { readPlannedModel } from "./read-model.js";
import { storedQuantization } from "./rules.js";
import { DECODE, defaultEfficiencies, type PlannedInstance, stepTime } from "./step-time.js";
import { ZEN5 } from "./test-measured.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-calibrate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const modelPath = join(folder, "tiny.gguf");
writeRandomModel(modelPath, { architecture: "llama", seed: 1, width: 256, ff: 1024, layers: 8 });

const machine = { kind: "cpu", device: ZEN5, count: 1 } as const;

const halved = (flops: Cpu["flops"]): Cpu["flops"] =>
  Object.fromEntries(Object.entries(flops).map(([name, peak]) => [name, peak / 2]));

async function tinyInstance(): Promise<PlannedInstance> {
  const model = await readPlannedModel(modelPath);
  const quantization = storedQuantization(model.stored!.label, machine);
  const efficiencies = defaultEfficiencies(machine, quantization);
  return { model, quantization, kv: KV_TYPES["16"], machine, tensorParallel: 1, efficiencies };
}

/** The measurements of a machine with these shares. */
function measuredBy(instance: PlannedInstance): EngineReport {
  const results = [1, 4, 16].map((batch) => ({
    batch,
    promptTokens: 64,
    genTokens: 16,
    prefillTokensPerS:
      64 / stepTime(instance, { ...DECODE, numDecoding: 0, context: 0, numPromptTokens: 64 }).totalSeconds,
    decodeTokensPerS: batch / stepTime(instance, { ...DECODE, numDecoding: batch, context: 72 }).totalSeconds,
  }));
  return { model: { path: modelPath }, results };
}

test("fitting finds the shares that made the measurements, and reports the error it took away", async () => {
  const instance = await tinyInstance();
  const real = { ...instance.efficiencies, memoryShare: 0.55, computeShare: 0.4 };
  const fit = fitPoints(instance, measuredBy({ ...instance, efficiencies: real }));
  expect(fit.efficiencies.memoryShare).toBeCloseTo(0.55, 2);
  expect(fit.efficiencies.computeShare).toBeCloseTo(0.4, 2);
  expect(fit.errorBefore).toBeGreaterThan(0.05);
  expect(fit.errorAfter).toBeLessThan(0.002);
});

test("results of bench engine are read from their file", async () => {
  const file = join(folder, "engine.json");
  writeFileSync(file, JSON.stringify(measuredBy(await tinyInstance())));
  const fit = await fittedEfficiencies(file, machine);
  expect(fit.source).toMatch(/^tiny in/);
  expect(fit.errorAfter).toBeLessThan(0.01);
});

test("what the report says of the machine's speed while it measured goes before what the machine is now", async () => {
  const half = { ...machine, device: { ...ZEN5, bytesPerS: ZEN5.bytesPerS / 2, flops: halved(ZEN5.flops) } } as const;
  const report = measuredBy({ ...(await tinyInstance()), machine: half });
  const { cpu4, cpu8, cpuFloat } = half.device.flops;
  const reading = { bytesPerS: half.device.bytesPerS, narrow: cpu4! / 2, wide: cpu8! / 2, float: cpuFloat! / 2 };
  const file = join(folder, "slow-minute.json");
  writeFileSync(file, JSON.stringify(report));
  const without = await fittedEfficiencies(file, machine);
  writeFileSync(file, JSON.stringify({ ...report, probes: { numThreads: ZEN5.numCores, readings: [reading] } }));
  const fit = await fittedEfficiencies(file, machine);
  expect(without.errorBefore).toBeGreaterThan(0.5);
  expect(fit.errorBefore).toBeLessThan(1e-9);
  expect(fit.cells.map(({ cell }) => cell)).toContain("decode, 16 at once");
});

test("results of bench kernels give the shares as they are", async () => {
  const row = (shape: string, rooflineShare: number) => ({ op: "linear Q4_0", shape, rooflineShare });
  const other = { op: "attention f16", shape: "1 × 4096 entries", rooflineShare: 0.1 };
  const results = [row("1 × 2048 → 5632", 0.7), row("8 × 2048 → 5632", 0.5), row("512 × 2048 → 5632", 0.9), other];
  const file = join(folder, "kernels.json");
  writeFileSync(file, JSON.stringify({ numThreads: 2, results }));
  const fit = await fittedEfficiencies(file, machine);
  expect(fit.efficiencies).toMatchObject({ memoryShare: 0.7, computeShare: 0.9 });
  expect(fit.errorBefore).toBeUndefined();
});

test("a report of steps as short as an engine may take is fitted", async () => {
  const file = join(folder, "short-steps.json");
  const report = measuredBy(await tinyInstance());
  writeFileSync(file, JSON.stringify({ ...report, options: { maxNumBatchedTokens: 8 } }));
  // Prompts in steps of 8 tokens instead of 64 would be slower than these.
  expect((await fittedEfficiencies(file, machine)).errorBefore).toBeGreaterThan(0.01);
});

test.each<[string, object]>([
  ["steps of no length", { options: { maxNumBatchedTokens: 1e-9 } }],
  ["steps of a part of a token", { options: { maxNumBatchedTokens: 16.5 } }],
  ["steps of a quarter of a million tokens", { options: { maxNumBatchedTokens: 1 << 18 } }],
  ["a prompt of too many steps", { options: { maxNumBatchedTokens: 1 }, results: [{ promptTokens: 1 << 17 }] }],
  ["a prompt without end", { results: [{ promptTokens: Number.MAX_SAFE_INTEGER }] }],
  ["a speed of nothing", { results: [{ prefillTokensPerS: 1e-308 }] }],
])("a file with %s is refused, not fitted for hours", async (_, {
  results = [{}],
  ...more
}: { results?: object[] }) => {
  const report = measuredBy(await tinyInstance());
  const file = join(folder, "hostile.json");
  writeFileSync(file, JSON.stringify({ ...report, ...more, results: [{ ...report.results[0], ...results[0] }] }));
  await expect(fittedEfficiencies(file, machine)).rejects.toMatchObject({ code: "invalid_option" });
});
