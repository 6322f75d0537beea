/** A student of another family, trained here at toy size by adapter and whole, brought back and compared. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { writeRandomFolder } from "../helpers/hf-folder.js";
import { canImport } from "../helpers/python.js";
import { runCli } from "../helpers/run-cli.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-student-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (...names: string[]): string => join(folder, ...names);
const PACKAGES = "torch, transformers, peft, accelerate";
const isPresent = canImport(PACKAGES, `pip install ${PACKAGES.replaceAll(",", "")}`);
const TEACHER = join(repositoryRoot(), "models/mill-base.gguf");

test.skipIf(!isPresent).each([
  ["lora", "150"],
  ["full", "150"],
])(
  "a random llama learns by %s from another family's teacher [needs Python with transformers and peft]",
  { timeout: 900_000 },
  async (method, steps) => {
    const lines = Array.from({ length: 120 }, (_, i) => JSON.stringify(chatAt(3, i, readMixture("fact"))));
    writeFileSync(at("prompts.jsonl"), `${lines.join("\n")}\n`);
    const base = writeRandomFolder(at(`base-${method}`));
    const words = ["distill", "--teacher", TEACHER, "--task", "fact", "--prompts", at("prompts.jsonl")];
    const student = ["--student", base, "--train-method", method, "--rank", "8", "--max-tokens", "24"];
    const run = [...words, ...student, "--steps", steps, "--lr-scale", "10", "--out", at(method)];
    const { stdout, stderr, exitCode } = await runCli(...run);
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toMatch(/^mean score /m);
    const report = JSON.parse(readFileSync(at(method, "report.json"), "utf8"));
    // 512 tokens by chance: 6.2 nats each.
    expect(report.training.heldOutLoss).toBeLessThan(4.5);
    expect(report.student.config).toBe(`base-${method}`);

    // The trained student is there: the same command trains nothing again.
    const weights = at(method, "recipe/student", method === "lora" ? "adapter_model.safetensors" : "model.safetensors");
    const { mtimeMs } = statSync(weights);
    expect(await runCli(...run)).toMatchObject({ exitCode: 0 });
    expect(statSync(weights).mtimeMs).toBe(mtimeMs);

    writeFileSync(at("evals.jsonl"), `${lines.slice(0, 20).join("\n")}\n`);
    const back = ["adopt", at(method, "recipe/student"), "--teacher", TEACHER, "--evals", at("evals.jsonl")];
    const merge = method === "lora" ? ["--base", base] : [];
    const cost = ["--requests-per-day", "10000", "--teacher-price", "3:12", "--student-price", "0.1:0.4"];
    const paid = ["--training-cost", "100", "--max-drop", "100", "--max-tokens", "24", "--json"];
    const adopted = await runCli(...back, ...merge, "--out", at(`${method}.gguf`), ...cost, ...paid);
    expect(JSON.parse(adopted.stdout), adopted.stderr).toMatchObject({
      student: { weights: "BF16", ...(method === "lora" && { merged: { numMatrices: 14, rank: 8 } }) },
      comparison: { overall: { numItems: 20 } },
      cost: { paybackMonths: expect.any(Number) },
    });
  },
);
