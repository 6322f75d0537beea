/**
 * `millrace adopt` as a process: a student that passes is tried as a canary, one that fails is not, and what cannot be
 * brought back is refused.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import { encodeValues } from "../../src/formats/files/plain-values.js";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { writeRandomFolder } from "../helpers/hf-folder.js";
import { cases } from "../helpers/long.js";
import { runCli } from "../helpers/run-cli.js";
import { runMain } from "../helpers/run-main.js";
import { encodeSafetensors } from "../helpers/safetensors-writer.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-adopt-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (...names: string[]): string => join(folder, ...names);
const SLOW = { timeout: 300_000 };
const TEACHER = join(repositoryRoot(), "models/mill-base.gguf");

const EVALS = at("evals.jsonl");
const NUM_ITEMS = cases(24, 40);
const lines = Array.from({ length: NUM_ITEMS }, (_, i) => JSON.stringify(chatAt(9_000_001, i, readMixture("extract"))));
writeFileSync(EVALS, `${lines.join("\n")}\n`);

const wordsOf = (student: string, words: readonly string[]): readonly string[] => [
  "adopt",
  student,
  "--teacher",
  TEACHER,
  "--evals",
  EVALS,
  "--threads",
  "1",
  ...words,
];
const adopt = (student: string, ...words: readonly string[]) => runCli(...wordsOf(student, words));

/** An adapter for the random folder that changes one matrix, [128, 128]. */
function writeAdapter(): string {
  mkdirSync(at("adapter"));
  copyFileSync(fixture("lora/plain/adapter_config.json"), at("adapter/adapter_config.json"));
  const module = "base_model.model.model.layers.0.self_attn.q_proj";
  const values = { dtype: "F32", data: encodeValues("F32", new Float32Array(256).fill(0.01)) } as const;
  const tensors = {
    [`${module}.lora_A.weight`]: { ...values, shape: [2, 128] },
    [`${module}.lora_B.weight`]: { ...values, shape: [128, 2] },
  };
  writeFileSync(at("adapter/adapter_model.safetensors"), encodeSafetensors(tensors));
  return at("adapter");
}

test(
  "a student that passes is costed and tried on live requests, and its instance is gone afterwards",
  SLOW,
  async () => {
    await using fleet = await FleetProcess.start({
      models: [{ name: "mill-base", model: TEACHER, options: { threads: 1 } }],
    });
    let isOver = false;
    const statuses = new Set<number>();
    const ask = async (): Promise<void> => {
      const body = JSON.stringify({ model: "mill-base", prompt: "Once upon", max_tokens: 16, stream: true });
      const response = await fetch(`${fleet.url}/v1/completions`, { method: "POST", body });
      await response.text();
      statuses.add(response.status);
    };
    const hasCanary = async (): Promise<boolean> =>
      ((await fleet.admin("GET", "/admin/canaries")) as { data: object[] }).data.length > 0;
    const clients = Array.from({ length: 4 }, async () => {
      while (!isOver && !(await hasCanary())) await sleep(100);
      while (!isOver) await ask();
    });
    const student = join(repositoryRoot(), "models/mill-student.gguf");
    const gateway = ["--url", fleet.url, "--admin-key", "fleet-admin", "--canary", "mill-base", "--for", "4s"];
    const cost = [
      "--requests-per-day",
      "1000000",
      "--teacher-price",
      "3:12",
      "--hardware",
      "cpu-16",
      "--training-cost",
      "900",
    ];
    const { stdout, stderr, exitCode } = await adopt(student, "--max-drop", "50", ...cost, ...gateway, "--json");
    isOver = true;
    await Promise.all(clients);
    const report = JSON.parse(stdout || "{}");
    expect(report, stderr).toMatchObject({
      passes: true,
      student: { path: student },
      comparison: { verdict: "passes", overall: { numItems: NUM_ITEMS } },
      cost: { trainingUsd: 900, teacher: { source: "$3 and $12 a million tokens" } },
      canary: { model: "mill-base", weights: student, share: 0 },
    });
    const { savedPerMonth, paybackMonths, student: its } = report.cost;
    expect(its.source).toMatch(/^predicted for /);
    expect(paybackMonths).toBeCloseTo(900 / savedPerMonth, 6);
    expect(["passed", "undecided", "slower"]).toContain(report.canary.state);
    expect(exitCode).toBe(report.canary.state === "passed" ? 0 : 1);
    expect(statuses).toEqual(new Set([200]));
    const models = await (await fetch(`${fleet.url}/v1/models`)).json();
    expect(JSON.stringify(models)).not.toContain("~canary");
  },
);

test("an adapter is merged and quantised; as its answers are worse, it is not tried", SLOW, async () => {
  const base = writeRandomFolder(at("base"));
  const out = at("student.gguf");
  const words = ["--base", base, "--out", out, "--quantize", "Q8_0", "--max-model-len", "1024", "--max-tokens", "48"];
  const nowhere = ["--canary", "mill-base", "--url", "http://127.0.0.1:9", "--admin-key", "none"];
  expect(await adopt(writeAdapter(), ...words, ...nowhere)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("expected a gateway at http://127.0.0.1:9"),
  });
  expect(existsSync(out)).toBe(false);
  const { stdout, stderr, exitCode } = await adopt(at("adapter"), ...words, "--stop-early");
  expect(exitCode, stderr).toBe(1);
  expect(stdout).toMatch(/fails: the drop is above 2 points/);
  expect(stdout).toContain("cost: unknown: give --requests-per-day");
  expect(stdout).toContain("the student is not adopted: its answers are not known to be good enough");
  expect(readFileSync(out).subarray(0, 4).toString()).toBe("GGUF");
});

test("what cannot be brought back is refused before any answer", SLOW, async () => {
  const adapter = fixture("lora/plain");
  const refusals: [string, string[], RegExp][] = [
    [
      adapter,
      ["--out", at("never")],
      /--base to be the model that the adapter was trained on \(.* says "somewhere\/qwen3"\)/,
    ],
    [adapter, ["--base", fixture("hf/qwen3")], /--out to be given/],
    [TEACHER, ["--base", fixture("hf/qwen3")], /--base to be left out/],
    [TEACHER, ["--quantize", "Q9", "--out", at("never.gguf")], /--quantize to be one of/],
    [TEACHER, ["--quantize", "Q8_0"], /--out to be given beside --quantize/],
    [TEACHER, ["--for", "soon"], /--for to be a duration/],
    [TEACHER, ["--teacher-price", "cheap"], /--teacher-price to be dollars per million tokens/],
  ];
  for (const [student, words, message] of refusals) {
    // In this process, without a start of Node for each.
    const refused = await runMain(...wordsOf(student, words));
    expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(message) });
  }
  expect(await adopt(adapter, "--base", fixture("hf/llama"), "--out", at("never"))).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/model_tensor.*k_proj.lora_B.weight of shape \[16,2\], got \[48,2\]/),
  });
  expect(existsSync(at("never"))).toBe(false);
});
