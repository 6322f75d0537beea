/**
 * Task files yield lm-evaluation-harness's numbers, item by item: test/fixtures/make-lm-eval-numbers.py recorded them
 * from the harness itself.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { expectSameNumbers, type HarnessNumbers } from "../../test/helpers/lm-eval-numbers.js";
import { silentStages } from "../core/stages.js";
import { harnessTasks } from "../quality/tasks.js";
import { openServerTarget } from "./eval-target.js";
import { evaluate, evaluatePair } from "./evaluate.js";

const folder = join(repositoryRoot(), "test/fixtures/lm-eval");
const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
const signal = new AbortController().signal;

let model: ChildProcess;
let url: string;
beforeAll(async () => {
  model = spawn(process.execPath, [join(repositoryRoot(), "test/helpers/hash-model.mjs")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(model.stdout!, "data")) as [Buffer];
  url = String(line).trim();
});
afterAll(() => model.kill());

const open = () => openServerTarget({ url }, { temperature: 0, maxTokens: 1, seed: 0, concurrency: 8 }, signal);
const tasksOf = (...names: readonly string[]) =>
  harnessTasks(
    names.map((name) => join(folder, name)),
    1000,
  );

test("the harness' log-likelihoods, prompts, answers, metrics and errors", async () => {
  const target = await open();
  try {
    const numbers = JSON.parse(readFileSync(join(folder, "numbers.json"), "utf8")) as HarnessNumbers;
    expectSameNumbers(await evaluate(target, tasksOf(...files), silentStages), numbers);
  } finally {
    await target.close();
  }
});

test("two models are paired on a file's items, and rounds give the same metrics as one go", async () => {
  const [one, other] = [await open(), await open()];
  try {
    const tasks = tasksOf("choices.yaml", "questions.yaml");
    const gate = { maxDrop: 0.02, isSequential: true };
    const { after, comparison } = await evaluatePair(one, other, tasks, gate, silentStages);
    const inOneGo = await evaluate(one, tasks, silentStages);
    expect(comparison.overall).toMatchObject({ numItems: 48, numLost: 0, numWon: 0 });
    for (const [index, { metrics }] of after.entries()) {
      for (const [name, { value }] of Object.entries(metrics!)) {
        expect(value).toBeCloseTo(inOneGo[index]!.metrics![name]!.value, 12);
      }
    }
  } finally {
    await one.close();
    await other.close();
  }
});
