/**
 * The files in presets/ must equal the planner's current output: `npx vitest run src/plan/presets.test.ts -u` rewrites
 * them.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { packageRoot } from "../core/package-root.js";
import { servedModelType } from "../model/hf/model-types.js";
import { LISTED_MODEL_TYPES, type PlannedEngine } from "./data/engines.js";
import { knownModel } from "./known-model.js";
import { NAMED_PRESETS, namedPreset, PRESET_SIZES, PRESET_TIERS, type PresetSize, presetFor } from "./test-presets.js";

const FOLDER = join(packageRoot(), "presets");
const SIZES = Object.keys(PRESET_SIZES) as PresetSize[];
const presets = [
  ...PRESET_TIERS.flatMap((tier) => SIZES.flatMap((size) => presetFor(tier, size) ?? [])),
  ...NAMED_PRESETS.map(namedPreset),
];

test.each(presets)("$file is what the planner says", async ({ file, text }) => {
  await expect(text).toMatchFileSnapshot(join(FOLDER, file));
});

test("there is no preset that the planner does not make, and all say what they bought", () => {
  expect(readdirSync(FOLDER).toSorted()).toEqual(presets.map(({ file }) => file).toSorted());
  for (const { text } of presets) {
    expect(text).toMatch(/^# Bought: /m);
    expect(text).toMatch(/^# Predicted with (16|256) requests/m);
    expect(text).toMatch(/^# weights: .*$/m);
  }
});

test("the headline's presets are FP8 on pairs of GPUs with a cached prefix and drafts: one of them, and four", () => {
  const [two, eight] = NAMED_PRESETS.map((each) => (parse(namedPreset(each).text) as { models: unknown[] }).models[0]);
  const options = { "tensor-parallel-size": 2, "enable-prefix-caching": true };
  const drafts = { "speculative-config": { method: "eagle3" } };
  expect(two).toMatchObject({ instances: 1, model: expect.stringMatching(/FP8/), options: { ...options, ...drafts } });
  expect(eight).toMatchObject({
    instances: 4,
    model: expect.stringMatching(/FP8/),
    options: { ...options, ...drafts },
  });
});

test("a preset names one model, its engine, and as many GPUs as its instances take", () => {
  for (const { file, text } of presets) {
    const { models } = parse(text) as { models: Record<string, unknown>[] };
    const [{ name, engine, model, instances, gpus, options }] = models as [Record<string, unknown>];
    expect([typeof name, typeof engine, typeof model], file).toEqual(["string", "string", "string"]);
    const { "tensor-parallel-size": width = 1 } = options as { "tensor-parallel-size"?: number };
    if (gpus !== undefined) expect((gpus as number[]).length, file).toBe((instances as number) * width);
  }
});

test("a preset reads tool calls, takes an agent's prompt, and starts without any variable", () => {
  for (const { file, text } of presets) {
    const { models } = parse(text) as {
      models: { engine: string; args?: string[]; options: Record<string, number> }[];
    };
    const { engine, args = [], options } = models[0]!;
    if (engine === "vllm") expect(args, file).toEqual(expect.arrayContaining(["--tool-call-parser"]));
    expect(args.includes("--reasoning-parser"), file).toBe(engine === "vllm" && file.endsWith("-moe.yaml"));
    const isShort = options["max-model-len"]! < 31_000;
    expect(isShort, file).toBe(
      /^# longest sequence: (7168|12288) tokens. as many of the model's 131072 as/m.test(text),
    );
    expect(text, file).not.toMatch(/env:/);
  }
});

test("a preset's model can be fetched, and is one that its engine loads", () => {
  for (const { file, text } of presets) {
    const size = SIZES.find((each) => file.endsWith(`-${each}.yaml`))!;
    const { modelType } = knownModel(PRESET_SIZES[size]);
    const { models } = parse(text) as { models: { engine: PlannedEngine; model: string }[] };
    const { engine, model } = models[0]!;
    expect(model, file).toMatch(
      engine === "millrace" || engine === "llama-server" ? /^hf:[\w.-]+\/[\w.-]+(:\w+)?$/ : /^[\w.-]+\/[\w.-]+$/,
    );
    expect(text, file).not.toMatch(/^# needs /m);
    if (engine === "millrace") expect(() => servedModelType(modelType), file).not.toThrow();
    else expect(LISTED_MODEL_TYPES[engine], file).toContain(modelType);
  }
});
