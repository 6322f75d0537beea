/** `millrace distill --student`: the recipe of a student of another family, without Python. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import { loadTextSide } from "../../src/text/text-side.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { writeRandomFolder } from "../helpers/hf-folder.js";
import { runCli } from "../helpers/run-cli.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-recipe-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (...names: string[]): string => join(folder, ...names);
const lines = Array.from({ length: 60 }, (_, i) => JSON.stringify(chatAt(3, i, readMixture("fact"))));
writeFileSync(at("prompts.jsonl"), `${lines.join("\n")}\n`);
const TEACHER = join(repositoryRoot(), "models/mill-base.gguf");
const distill = (...words: readonly string[]) =>
  runCli("distill", "--teacher", TEACHER, "--prompts", at("prompts.jsonl"), "--max-tokens", "24", ...words);

test("a recipe has the student's tokens of the teacher's answers, and names the commands", {
  timeout: 120_000,
}, async () => {
  const base = writeRandomFolder(at("base"));
  const { stderr, exitCode } = await distill("--student", base, "--no-train", "--out", at("out"), "--steps", "7");
  expect(exitCode, stderr).toBe(0);
  expect(stderr).toContain("torchrun --standalone --nproc-per-node=gpu student.py --base STUDENT");
  expect(stderr).toContain(`millrace adopt ${at("out/recipe/student")} --base ${base}`);
  const recipe = JSON.parse(readFileSync(at("out/recipe/recipe.json"), "utf8"));
  expect(recipe).toMatchObject({ base, method: "lora", rank: 16, rate: 2e-4, steps: 7 });
  expect(readFileSync(at("out/recipe/student.py"), "utf8")).toBe(
    readFileSync(join(repositoryRoot(), "models/training/student.py"), "utf8"),
  );
  const { tokenizer, asyncTokenizer } = await loadTextSide(base);
  asyncTokenizer.end();
  const read = (path: string) =>
    readFileSync(at(path), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  const answers = new Map(read("out/answers.jsonl").map(({ text, end }) => [text, end]));
  const [examples, heldOut] = [read("out/recipe/train.jsonl"), read("out/recipe/eval.jsonl")];
  expect(examples.length).toBeGreaterThan(heldOut.length);
  for (const { ids, num_prompt: numPrompt } of [...examples, ...heldOut]) {
    expect(tokenizer.decode(ids.slice(0, numPrompt), { keepSpecial: true })).toMatch(
      /^<\|im_start\|>.*<\|im_end\|>\n?<\|im_start\|>assistant\n$/s,
    );
    const answer = tokenizer.decode(ids.slice(numPrompt), { keepSpecial: true });
    expect(answers.get(answer.replace(/<\|im_end\|>$/, ""))).toBe("stop");
  }
});

test("students that cannot be trained are refused before any answer", { timeout: 60_000 }, async () => {
  const cases: [string[], RegExp][] = [
    [["--student", TEACHER], /--student to be a folder with config.json/],
    [["--student", at("base"), "--student-config", "tiny"], /--student-config to be left out beside --student/],
    [["--student", at("base"), "--student-type", "q8_0"], /--student-type to be left out/],
    [["--student", at("base"), "--rank", "0"], /--rank to be an integer in/],
  ];
  for (const [words, message] of cases) {
    expect(await distill(...words, "--no-train", "--out", at("never"))).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(message),
    });
  }
  expect(existsSync(at("never"))).toBe(false);
});
