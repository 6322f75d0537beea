/** Reports beside models: a report counts for a file only if it passed and is of the very bytes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { contentHashOf } from "../formats/content-hash.js";
import { makePlan } from "./plan.js";
import { readPlannedModel } from "./read-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-report-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, "small.gguf");
writeRandomModel(file, { architecture: "llama", seed: 2, type: "Q8_0" });
const content = contentHashOf([file], () => {});
const passed = {
  method: "Q8_0",
  content,
  quality: { verdict: "passes", maxDrop: 0.02, overall: { drop: 0.004, numItems: 800 } },
};

const weightsWith = async (report: object | undefined) => {
  if (report !== undefined) writeFileSync(`${file}.json`, JSON.stringify(report));
  const model = await readPlannedModel(file);
  const request = { ...planRequest("llama-3.1-8b", "cpu-8"), model, inputTokens: 16, outputTokens: 8 };
  const { grades, choices } = makePlan(request).configurations[0]!;
  return [grades.weights, choices.find(({ about }) => about === "weights")!.because] as const;
};

test("a file without a report is of unknown quality; with one of these bytes that passes, it is measured", async () => {
  expect(await weightsWith(undefined)).toEqual(["unknown", expect.stringMatching(/No report .* lies beside it/)]);
  expect(await weightsWith(passed)).toEqual([
    "measured",
    expect.stringMatching(/Grade of evidence: measured\. .*a drop of 0\.4 points over 800 items, which passes at 2\.0/),
  ]);
});

test.each([
  ["of other bytes", { ...passed, content: "0".repeat(64) }],
  ["of a file that failed", { ...passed, quality: { ...passed.quality, verdict: "fails" } }],
  ["without a judgement", { method: "Q8_0", content }],
  ["of another program", { name: "small" }],
])("a report %s speaks for nothing", async (_, report) => {
  expect((await weightsWith(report))[0]).toBe("unknown");
});

test("a damaged report is refused by name", async () => {
  const damaged = { ...passed, quality: { ...passed.quality, maxDrop: "much" } };
  await expect(weightsWith(damaged)).rejects.toThrow(/expected small\.gguf\.json: quality\.maxDrop/);
});
