/**
 * `millrace distill` and `train-drafter` as processes: collecting on the bundled model, and the whole way at toy size
 * where Python has PyTorch.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import { readGguf } from "../../src/formats/gguf/read.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { writeRandomFolder } from "../helpers/hf-folder.js";
import { cases } from "../helpers/long.js";
import { canTrain, python } from "../helpers/python.js";
import { runMain } from "../helpers/run-main.js";
import { startTestServer } from "../helpers/server.js";

const LAUNCHER = join(repositoryRoot(), "bin/millrace.js");
const folder = mkdtempSync(join(tmpdir(), "millrace-distill-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (...names: string[]): string => join(folder, ...names);

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [LAUNCHER, ...args], { env: { ...process.env, ...env } });
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (part: string) => {
      text[name] += part;
    });
  }
  const ended = new Promise<Ended>((resolve) => child.once("close", (exitCode) => resolve({ ...text, exitCode })));
  return { child, ended };
}

const millrace = (...args: readonly string[]): Promise<Ended> => start(args).ended;

function writeChats(name: string, seed: number, count: number): string {
  const lines = Array.from({ length: count }, (_, index) => JSON.stringify(chatAt(seed, index, readMixture("fact"))));
  writeFileSync(at(name), `${lines.join("\n")}\n`);
  return at(name);
}

const linesOf = (path: string): string[] => readFileSync(path, "utf8").split("\n").slice(0, -1);

test("collecting resumes after a kill and requests no answer twice", async () => {
  const prompts = writeChats("resume.jsonl", 3, cases(50, 120));
  const args = [
    "distill",
    "--teacher",
    "models/mill-base.gguf",
    "--prompts",
    prompts,
    "--out",
    at("resumed"),
    "--no-train",
  ];
  const answers = at("resumed", "answers.jsonl");
  const { child, ended } = start([...args, "--max-num-seqs", "1", "--max-tokens", "30"]);
  while (child.exitCode === null && !(existsSync(answers) && linesOf(answers).length > 2)) await sleep(5);
  child.kill("SIGKILL");
  await ended;
  const before = linesOf(answers);
  writeFileSync(answers, `${before.join("\n")}\n{"id": "cut o`);
  const again = await millrace(...args, "--max-tokens", "30");
  expect(again).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(`${before.length} of them from before`) });
  const after = linesOf(answers);
  expect(after.slice(0, before.length)).toEqual(before);
  expect(new Set(after.map((line) => JSON.parse(line).id)).size).toBe(after.length);
  const other = await millrace(...args, "--max-tokens", "31");
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("use another --out") });
});

test("a remote teacher gives the same answers as the local model, and files for other training tools", async () => {
  const prompts = writeChats("remote.jsonl", 4, 40);
  const terms = ["--prompts", prompts, "--task", "fact", "--max-tokens", "30"];
  let url: string;
  {
    await using server = await startTestServer([]);
    const asking = ["distill", "--teacher", server.url, ...terms, "--out", at("remote")];
    // Two at once: the second finds everything answered.
    const both = await Promise.all([millrace(...asking), millrace(...asking)]);
    for (const ended of both) {
      expect(ended).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("--tokenizer-from") });
    }
    expect(both.filter(({ stderr }) => stderr.includes("waiting for its end"))).toHaveLength(1);
    expect(both.filter(({ stderr }) => stderr.includes("of them from before"))).toHaveLength(1);
    url = server.url;
  }
  const gone = await millrace("distill", "--teacher", url, ...terms, "--out", at("remote"));
  expect(gone).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/answers .*of them from before/) });
  const model = ["--teacher", "models/mill-base.gguf", "--no-train"];
  const local = await millrace("distill", ...model, ...terms, "--out", at("local"));
  expect(local).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("for training elsewhere") });
  for (const name of ["train.jsonl", "eval.jsonl"]) {
    expect(readFileSync(at("remote", "trl", name), "utf8")).toBe(readFileSync(at("local", "trl", name), "utf8"));
  }
});

test("impossible settings are reported before any work", async () => {
  const prompts = writeChats("few.jsonl", 5, 60);
  writeFileSync(at("bad.jsonl"), `${linesOf(prompts)[0]}\n{"messages": 7}\n`);
  writeFileSync(at("unchecked.jsonl"), '{"messages": [{"role": "user", "content": "Hi"}]}\n');
  writeFileSync(at("empty.jsonl"), "");
  const out = ["--out", at("never")];
  const teacher = ["distill", "--teacher", "models/mill-base.gguf"];
  const refused: [string[], RegExp][] = [
    [["--prompts", at("bad.jsonl"), "--task", "fact"], /bad\.jsonl, line 2/],
    [["--prompts", at("unchecked.jsonl"), "--task", "fact"], /a check in .*unchecked\.jsonl, line 1/],
    [["--prompts", at("empty.jsonl"), "--task", "fact"], /prompts in .*empty\.jsonl, got none/],
    [["--prompts", prompts, "--task", "poems"], /family of .*\(fact\), got "poems"/],
    [["--prompts", prompts], /--task or --scorer, got neither/],
    [["--prompts", prompts, "--task", "fact", "--tokenizer-from", "test/fixtures/hf/llama"], /--tokenizer-from/],
    [["--prompts", prompts, "--task", "fact", "--student-config", "tiny", "--init-from", "m.gguf"], /--student-config/],
  ];
  for (const [args, message] of refused) {
    // In this process, without a start of Node for each.
    expect(await runMain(...teacher, ...args, ...out)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(message),
    });
  }
  const drafter = ["train-drafter", "--prompts", prompts];
  const widths: [string[], RegExp][] = [
    [["--kind", "draft", "--width", "128"], /--width to be left out for kind draft/],
    [["--kind", "eagle", "--width", "100"], /--width to be a multiple of 32 up to 256/],
  ];
  for (const [args, message] of widths) {
    expect(await runMain(...drafter, ...args, ...out)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(message),
    });
  }
  expect(existsSync(at("never"))).toBe(false);
});

const isPresent = canTrain();

test.skipIf(!isPresent)(
  "a toy teacher is distilled and gets drafters [needs a Python with PyTorch]",
  { timeout: 600_000 },
  async () => {
    const corpus = writeChats("corpus.jsonl", 1, 1500);
    const script = join(repositoryRoot(), "models/training/train.py");
    const shared = ["--steps", "70", "--tokens-per-step", "1024", "--tokens-per-pass", "512", "--threads", "2"];
    const pretrain = ["pretrain", "--preset", "toy", "--corpus", corpus, "--holdout", writeChats("held.jsonl", 2, 20)];
    const files = ["--run", at("base"), "--out", at("toy.gguf")];
    const env = { ...process.env, OMP_WAIT_POLICY: "PASSIVE" };
    await promisify(execFile)(python, [script, ...pretrain, ...files, ...shared], { env });

    const prompts = writeChats("prompts.jsonl", 7, 120);
    const common = ["--prompts", prompts, "--steps", "3", "--max-tokens", "32", "--holdout-share", "0.2"];
    const teach = ["distill", "--teacher", at("toy.gguf"), "--task", "fact", ...common];
    const distill = [...teach, "--student-config", "tiny"];
    const noPython = await start([...distill, "--out", at("none")], { MILLRACE_PYTHON: at("no-python") }).ended;
    expect(noPython).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/python_missing.*\nhint: run: .*pip install -r/),
    });

    const distilled = await millrace(...distill, "--out", at("student"));
    expect(distilled).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^mean score .*\n.*Speed, one client/ms),
    });
    const report = JSON.parse(readFileSync(at("student", "report.json"), "utf8"));
    expect(report.quality.numItems).toBe(report.items.length);
    expect(report.speed.decoding.low).toBeLessThan(report.speed.decoding.high);
    const trained = linesOf(at("student", "train.jsonl")).map((line) =>
      JSON.stringify(JSON.parse(line).messages.slice(0, -1)),
    );
    const heldOut = report.items.map((item: { prompt: object }) => JSON.stringify(item.prompt));
    expect(heldOut.filter((prompt: string) => trained.includes(prompt))).toEqual([]);
    expect(readFileSync(at("student", "report.md"), "utf8")).toMatch(/^\| right \| /m);

    expect(report.speed.loaded).toMatchObject({ numSequences: expect.any(Number), studentMs: expect.any(Number) });
    const rounded = await millrace(...distill, "--student-type", "q8_0", "--lr-scale", "0.5", "--out", at("student"));
    expect(rounded).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("Q8_0") });
    const { student } = JSON.parse(readFileSync(at("student", "report.json"), "utf8"));
    expect(student.size.weightBytes).toBeLessThan(0.6 * report.student.size.weightBytes);

    const drafter = ["train-drafter", "--model", at("toy.gguf"), "--depth", "3", ...common];
    const draft = await millrace(...drafter, "--out", at("draft"));
    expect(draft).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^position +1 +2 +3\naccepted( +[\d.]+ %){3}/),
    });
    const acceptanceOf = (kind: string) =>
      JSON.parse(readFileSync(at("draft", `${kind}-report.json`), "utf8")).acceptance;
    const acceptance = acceptanceOf("draft");
    expect(acceptance).toMatchObject({ numDrafts: expect.any(Number) });
    expect(acceptance.byPosition).toEqual([...acceptance.byPosition].sort((a: number, b: number) => b - a));
    const refusals: [string[], RegExp][] = [
      [[...teach, "--out", at("student"), "--init-from", at("student", "student.gguf")], /outside the folder of --out/],
      [[...drafter, "--out", at("draft"), "--init-from", "models/mill-base.gguf"], /a model with the tokens of .*toy/],
    ];
    for (const [args, message] of refusals) {
      expect(await millrace(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(message) });
    }
    const heads = await millrace(...drafter, "--kind", "eagle", "--width", "32", "--out", at("draft"));
    expect(heads).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("of them from before") });
    expect(readGguf(at("draft", "eagle.gguf")).tensors.has("eagle.output.weight")).toBe(true);
    expect(acceptanceOf("eagle")).toMatchObject({ numDrafts: expect.any(Number) });
    expect(acceptanceOf("draft")).toEqual(acceptance);
    const head = await millrace(...drafter, "--kind", "eagle3", "--out", at("draft"));
    expect(head).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("of them from before") });
    expect(acceptanceOf("eagle3")).toMatchObject({ numDrafts: expect.any(Number) });
  },
);

test.skipIf(!isPresent)(
  "a model that is not of the mill family gets an EAGLE-3 head, which serves [needs a Python with PyTorch]",
  { timeout: 300_000 },
  async () => {
    const model = writeRandomFolder(at("random"));
    const prompts = writeChats("few.jsonl", 7, 40);
    const common = ["--prompts", prompts, "--steps", "3", "--max-tokens", "24", "--holdout-share", "0.2"];
    const trained = await millrace(
      "train-drafter",
      "--model",
      model,
      "--kind",
      "eagle3",
      ...common,
      "--out",
      at("head"),
    );
    expect(trained).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^position +1 +2 +3 +4\naccepted/) });
    const config = JSON.parse(readFileSync(at("head", "eagle3", "config.json"), "utf8"));
    expect(config).toMatchObject({ architectures: ["LlamaForCausalLMEagle3"], hidden_size: 128, vocab_size: 512 });
    const ask = ["generate", "--model", model, "--prompt", "Hello", "--max-tokens", "24", "--temperature", "0"];
    const drafts = JSON.stringify({ method: "eagle3", model: at("head", "eagle3"), adaptive: false });
    const answers = [await millrace(...ask), await millrace(...ask, "--speculative-config", drafts)];
    expect(answers).toEqual(answers.map(({ stdout }) => expect.objectContaining({ exitCode: 0, stdout })));
    expect(answers[1]!.stdout).toBe(answers[0]!.stdout);
  },
);
