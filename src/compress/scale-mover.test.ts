/** Scales of a whole model, moved while its copies are written. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { cases, isLongRun } from "../../test/helpers/long.js";
import { plantOutliers } from "../../test/helpers/planted-outliers.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { convertModel } from "../convert/convert.js";
import { silentStages } from "../core/stages.js";
import type { OpenModel } from "../model/open-model.js";
import { importanceOf, measureImportance } from "./importance.js";
import { journaled } from "./journal.js";
import { measureLoss } from "./loss.js";
import { type QuantiseSettings, quantise } from "./quantise.js";

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");
const TEXTS = [90, 120, 60].map((length) => Array.from({ length }, (_, i) => (i * 37 + length) % 4000));
const { signal } = new AbortController();

interface Wanted extends Pick<QuantiseSettings, "model" | "rounding" | "scaling"> {
  readonly method: QuantiseSettings["methods"][number];
  readonly layout?: QuantiseSettings["layout"];
}

/** The copy's path, and the notes about it. */
async function copyOf({ model, method, layout = "compressed-tensors", rounding, scaling }: Wanted) {
  const out = join(tempTree({}), method.startsWith("Q") ? "copy.gguf" : "copy");
  const settings: Omit<QuantiseSettings, "journal"> = {
    model,
    out,
    methods: [method],
    layout,
    importance: importanceOf(await measureImportance(model, TEXTS, 1, silentStages, signal)),
    texts: TEXTS,
    rounding,
    scaling,
    about: { model: "student", calibration: undefined, evals: undefined },
    numThreads: 1,
    heldOut: [],
    gate: undefined,
  };
  const { chosen } = await journaled(out, {}, (journal) =>
    quantise({ ...settings, journal }, silentStages, () => {}, signal),
  );
  return { out, chosen: chosen! };
}

const lossOf = async (copy: string): Promise<number> =>
  (await measureLoss(STUDENT, copy, TEXTS, 1, silentStages, signal)).meanKl;

/** The student with planted outliers, which computes the same. */
async function planted(): Promise<string> {
  const out = join(tempTree({}), "planted.gguf");
  await convertModel({ model: STUDENT, out, type: "F32", change: (opened) => plantOutliers(opened) });
  return out;
}

const ROUNDED = [
  ["INT4_64", "nearest"],
  ["Q4_0", "nearest"],
  ["INT4_64", "gptq"],
] as const;

test.each(
  ROUNDED.slice(0, cases(1, 3)),
)("outliers cost %s, rounded %s, a multiple, and with AWQ next to nothing", async (method, rounding) => {
  const model = await planted();
  expect(await lossOf(model)).toBeLessThan(1e-4);
  const before = await lossOf((await copyOf({ model: STUDENT, method, rounding, scaling: "none" })).out);
  const without = await lossOf((await copyOf({ model, method, rounding, scaling: "none" })).out);
  const { out, chosen } = await copyOf({ model, method, rounding, scaling: "awq" });
  const scaled = await lossOf(out);
  expect(without).toBeGreaterThan(1.5 * before);
  expect(scaled - before).toBeLessThan(0.3 * (without - before));
  expect(chosen.scaled).toMatchObject({ scaling: "awq", numInputs: expect.any(Number) });
  expect(chosen.scaled!.numMoved).toBeGreaterThan(chosen.scaled!.numInputs / 2);
});

test.runIf(isLongRun)(
  "folders of four bits have AWQ's scales in every layout, and their card says so (needs npm run test:long)",
  async () => {
    const model = await planted();
    const [plain, awq] = await Promise.all(
      (["compressed-tensors", "awq"] as const).map((layout) =>
        copyOf({ model, method: "INT4_64", layout, rounding: "nearest", scaling: undefined }),
      ),
    );
    const [lossOfPlain, lossOfAwq] = [await lossOf(plain!.out), await lossOf(awq!.out)];
    expect(Math.abs(lossOfAwq / lossOfPlain - 1)).toBeLessThan(0.1);
    const card = readFileSync(join(awq!.out, "README.md"), "utf8");
    expect(card).toMatch(/\| scales of inputs \| AWQ: moved into the weights for \d+ of \d+ inputs of layers \|/);
    const without = await copyOf({ model, method: "INT4_64", rounding: "nearest", scaling: "none" });
    expect(readFileSync(join(without.out, "README.md"), "utf8")).toContain("| scales of inputs | as in the original |");
  },
);

test("a model without norms before its sub-layers keeps the scales of their inputs, and experts share theirs", async () => {
  const numMoved = async (architecture: "olmo2" | "qwen3moe"): Promise<readonly number[]> => {
    const [plain, model] = ["plain.gguf", "model.gguf"].map((name) => join(tempTree({}), name)) as [string, string];
    writeRandomModel(plain, { architecture, seed: 1, contextLength: 512, vocab: 4000 });
    const change = (opened: OpenModel) => plantOutliers(opened, () => true);
    await convertModel({ model: plain, out: model, type: "F32", change });
    const { chosen } = await copyOf({ model, method: "Q4_0", rounding: "gptq", scaling: "awq" });
    return [chosen.scaled!.numMoved, chosen.scaled!.numInputs];
  };
  const [moved, all] = await numMoved("olmo2");
  expect(all).toBe(16);
  expect(moved).toBeLessThanOrEqual(8);
  expect(moved).toBeGreaterThan(0);
  const [movedOfExperts, allOfExperts] = await numMoved("qwen3moe");
  expect(allOfExperts).toBe(8);
  expect(movedOfExperts).toBeLessThanOrEqual(6);
  expect(movedOfExperts).toBeGreaterThan(0);
});
