/**
 * `millrace plan` from arguments to output: the table, JSON, page and file, and fifty wrong inputs with a coded answer
 * each.
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { packageRoot } from "../../core/package-root.js";
import { formatUsd } from "../../core/quantities.js";
import { KNOWN_NAMES } from "../../plan/known-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-plan-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const at = (name: string): string => join(folder, name);

const plan = (...args: readonly string[]) => runMain("plan", ...args);
const ALLOWED = "--allow-published-quantization";
const H100S = ["--model", "llama-3.3-70b", "--hardware", "h100x2", ALLOWED] as const;

test("the table has the winner's memory, reasons and arguments", async () => {
  const { stdout, stderr, exitCode } = await plan(...H100S);
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
  expect(stdout).toMatch(/llama-3\.3-70b on 2 × H100 SXM 80 GB/);
  expect(stdout).toMatch(/memory {2}79\.6 GiB of each GPU: weights [\d.]+ GiB, keys and values/);
  expect(stdout).toMatch(/weights: FP8 \(W8A8\)\. [\d,]+ tokens\/s against/);
  expect(stdout).toMatch(/vllm serve RedHatAI\/Llama-3\.3-70B-Instruct-FP8-dynamic .*--tensor-parallel-size/);
  expect(stdout).toMatch(/Predicted, not measured/);
});

test("--list-models has every known name, its size, and the engines that run it", async () => {
  const { stdout, exitCode } = await plan("--list-models");
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^qwen3-30b-a3b +30\.5 B +[\d.]+ B +40K +bf16 +millrace, vllm, sglang/m);
  expect(stdout).toMatch(/^gpt-oss-120b .* mxfp4 /m);
  const { models } = JSON.parse((await plan("--list-models", "--json")).stdout);
  expect(models.map(({ name }: { name: string }) => name)).toEqual(KNOWN_NAMES);
  const known = (model: string) => models.find(({ name }: { name: string }) => name === model);
  for (const name of KNOWN_NAMES) expect(known(name).engines, name).toContain("millrace");
});

test("the guide's figures are today's", async () => {
  const guide = readFileSync(join(packageRoot(), "docs/guides/plan.md"), "utf8");
  const best = async (...more: readonly string[]) => {
    const { configurations } = JSON.parse((await plan("--model", "llama-3.3-70b", ...more, ALLOWED, "--json")).stdout);
    return configurations[0];
  };
  const figures = [
    await best("--hardware", "h100x2"),
    await best("--hardware", "h100x8"),
    await best("--hardware", "h100x8", "--concurrency", "256"),
  ].map(({ instances, tensorParallel, prediction, cost }) => ({
    shape: `${instances} × TP${tensorParallel}`,
    speed: Math.round(prediction.outputTokensPerS).toLocaleString("en-US"),
    cost: formatUsd(cost.usdPerMillionOutput),
  }));
  for (const { shape, speed, cost } of figures) {
    for (const figure of [shape, speed, cost]) expect(guide).toContain(figure);
  }
});

test("--measure fits the speed model to this machine, and says by how much it was off", async () => {
  const file = at("measured.gguf");
  writeRandomModel(file, { architecture: "llama", seed: 3 });
  const speeds = [
    "--memory-bandwidth",
    "30",
    "--multiply-speed",
    "300",
    "--input-tokens",
    "64",
    "--output-tokens",
    "32",
  ];
  const { stdout, stderr, exitCode } = await plan(
    "--model",
    file,
    "--hardware",
    "cpu",
    ...speeds,
    "--measure",
    "--json",
  );
  expect(exitCode, stderr).toBe(0);
  const { calibration } = JSON.parse(stdout);
  expect(calibration.source).toMatch(/measured just now/);
  expect(calibration.cells).toHaveLength(6);
  expect(calibration.errorAfter).toBeLessThanOrEqual(calibration.errorBefore);
}, 120_000);

const HOSTS = ["--model", "llama-3.3-70b", "--hardware", "h100x8", ALLOWED] as const;
const FLEET = [...HOSTS, "--slo", "ttft=2000ms,tpot=60ms"] as const;

test("a rate beyond one machine is one page, and the files are one host's", async () => {
  const [yaml, html] = [at("host.yaml"), at("host.html")];
  const { stdout, exitCode } = await plan(...FLEET, "--requests-per-second", "10000", "--yaml", yaml, "--html", html);
  expect(exitCode).toBe(0);
  for (const what of ["hosts", "instances", "GPUs", "gateways", "zones", "a month", "What fails first"])
    expect(stdout).toContain(what);
  expect(stdout.split("\n").length).toBeLessThan(45);
  const { instances, options } = parse(readFileSync(yaml, "utf8")).models[0];
  expect(instances).toBe(4);
  expect(stdout).toContain(`--max-num-seqs ${options["max-num-seqs"]}`);
  expect(readFileSync(html, "utf8")).toContain(`--max-num-seqs ${options["max-num-seqs"]}`);
  const guide = readFileSync(join(packageRoot(), "docs/guides/plan.md"), "utf8");
  const hosts = /^hosts +(\d+)/m.exec(stdout)![1]!;
  expect(guide).toMatch(new RegExp(`${hosts}\\s+hosts`));
});

test("a rate that one machine serves too slowly for the targets is a fleet too", async () => {
  expect((await plan(...HOSTS, "--rps", "26")).stdout).not.toMatch(/^hosts/m);
  const { stdout, exitCode } = await plan(...FLEET, "--rps", "26");
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^hosts +3 /m);
});

test("a fleet's page and its JSON have the warnings of its hosts", async () => {
  const awq = [...FLEET, "--rps", "1000", "--quantization", "awq"];
  expect((await plan(...awq)).stdout).toMatch(/^WARNING quality: the lowest published figure of AWQ/m);
  const { fleet } = JSON.parse((await plan(...awq, "--json")).stdout);
  expect(fleet.warnings.join()).toMatch(/lowest published figure of AWQ/);
});

test("advice has eight techniques, an order and when not to", async () => {
  const { stdout } = await plan(
    "advise",
    "--model",
    "llama-3.3-70b",
    "--hardware",
    "h100x4",
    "--bottleneck",
    "latency",
  );
  expect(stdout).toMatch(/speculative decoding +−/);
  expect(stdout).toMatch(/2\. The bottleneck: latency/);
  expect(stdout).toMatch(/When not to\n/);
});

test("without leave nothing is compressed on published figures alone, and the plan says what leave would give", async () => {
  const asked = ["--model", "llama-3.3-70b", "--hardware", "h100x2"];
  const { stdout } = await plan(...asked);
  expect(stdout).toMatch(/weights: BF16\. nothing is quantised/);
  expect(stdout.replaceAll(/\s+/g, " ")).toMatch(
    /--allow-published-quantization would choose FP8 \(W8A8\): [\d,]+ tokens\/s .* against [\d,]+ tokens\/s .*millrace quantize --evals/,
  );
  const report = JSON.parse((await plan(...asked, "--json")).stdout);
  const typesOf = ({ quantization, kv }: { quantization: { id: string }; kv: { id: string } }) => [
    quantization.id,
    kv.id,
  ];
  expect(new Set(report.configurations.flatMap(typesOf))).toEqual(new Set(["bf16", "16"]));
  expect(report.configurations[0].quantization).not.toHaveProperty("grade");
  const [leave] = JSON.parse((await plan(...H100S, "--json")).stdout).configurations;
  expect(leave.quantization).toMatchObject({ id: "fp8", grade: "published" });
  const [named] = JSON.parse((await plan(...asked, "--quantization", "awq", "--json")).stdout).configurations;
  expect(named.quantization).toMatchObject({ id: "awq", grade: "published" });
});

test("what fits only compressed says how it may be had", async () => {
  const { stderr } = await plan("--model", "qwen2.5-32b", "--hardware", "a100-40");
  expect(stderr).toMatch(/plan_does_not_fit[\s\S]*INT8 \(W8A8\): published figures alone speak for it/);
  expect(stderr).toMatch(
    /hint:\s+INT8 \(W8A8\) would fit, on published figures alone: --allow-published-quantization takes it; millrace quantize --evals/,
  );
});

test.each([
  "h100x2-70b",
  "a100-40-32b",
  "h100x8-70b",
  "l40s-moe",
  "cpu-8b",
])("the command that preset %s records makes it", async (name) => {
  const text = readFileSync(join(packageRoot(), "presets", `${name}.yaml`), "utf8");
  const [, command = ""] = /^# Made by: millrace plan (.*(?:\n# {3}.*)*)/m.exec(text)!;
  const yaml = at(`${name}.yaml`);
  const words = command.split(/[\s#]+/);
  expect(words.includes(ALLOWED)).toBe(text.replaceAll(/\s+(# +)?/g, " ").includes("Grade of evidence: published."));
  await plan(...words, "--yaml", yaml);
  expect(parse(readFileSync(yaml, "utf8"))).toEqual(parse(text));
});

test("JSON has everything, and the arguments are those of the fleet's adapter", async () => {
  const { stdout } = await plan(...H100S, "--engine", "tensorrt-llm", "--json");
  const report = JSON.parse(stdout);
  const [best] = report.configurations;
  expect(report.request).toMatchObject({ inputTokens: 1024, load: { concurrency: 16 }, objective: "throughput" });
  expect(best.memory.kvBytes).toBeGreaterThan(0);
  expect(best.choices.map(({ about }: { about: string }) => about)).toEqual(
    expect.arrayContaining([
      "engine",
      "weights",
      "GPUs an instance",
      "instances",
      "KV memory",
      "prefix caching",
      "speculation",
    ]),
  );
  expect(best.launch.command.slice(0, 2)).toEqual(["trtllm-serve", best.options.model]);
  expect(Object.values(best.launch.files).join()).toMatch(/enable_block_reuse: true/);
});

test.each(["vllm", "sglang", "tensorrt-llm"])("%s gets arguments", async (engine) => {
  const { stdout } = await plan(...H100S, "--engine", engine, "--json");
  expect(JSON.parse(stdout).configurations[0].launch.command.join(" ")).toMatch(
    /max[-_]num[-_]seqs|max-running-requests|max_batch_size/,
  );
});

test("the page needs nothing from anywhere and has both pictures", async () => {
  const html = at("plan.html");
  expect((await plan(...H100S, "--html", html)).exitCode).toBe(0);
  const page = readFileSync(html, "utf8");
  expect(page).toMatch(/aria-label="Pareto frontier"[\s\S]*aria-label="Roofline"/);
  expect(page).not.toMatch(/(src|href)="http/);
  expect(page).not.toMatch(/NaN|undefined|Infinity/);
});

test("the file it writes is the fleet's", async () => {
  const yaml = at("millrace.yaml");
  await plan(...H100S, "--yaml", yaml);
  const { models } = parse(readFileSync(yaml, "utf8"));
  expect(models[0]).toMatchObject({
    name: "llama-3.3-70b",
    engine: "vllm",
    options: { "enable-prefix-caching": true },
  });
});

test("a model's own file is planned with its own bytes, on given speeds", async () => {
  const file = at("tiny.gguf");
  writeRandomModel(file, { architecture: "llama", seed: 1 });
  const { stdout } = await plan(
    "--model",
    file,
    "--hardware",
    "cpu",
    "--memory-bandwidth",
    "50",
    "--multiply-speed",
    "400",
    "--input-tokens",
    "32",
    "--output-tokens",
    "16",
    "--json",
  );
  const { request, configurations } = JSON.parse(stdout);
  expect(request.model).toMatchObject({ numLayers: 2, numHeads: 4, stored: { label: "F32" } });
  expect(configurations[0]).toMatchObject({ engine: "millrace", options: { model: file } });
});

test("costs: break-even against APIs and three sizes of business", async () => {
  const args = ["costs", "--model", "llama-3.1-8b", "--hardware", "l40s", "--concurrency", "64", "--api", "1:2"];
  const { stdout } = await plan(...args);
  expect(stdout).toMatch(/Break-even[\s\S]*--api +given +\$4\.00[\s\S]*startup[\s\S]*enterprise/);
  const costs = JSON.parse((await plan(...args, "--json")).stdout);
  const [given] = costs.breakEven;
  // Output at $2 and twice as much input at $1: $4 a million; the machine's month divided by that.
  expect(given.apiUsdPerMillionOutput).toBe(4);
  expect(given.millionsPerMonth).toBeCloseTo((costs.cost.usdPerHour * 730) / 4);
  expect(costs.scales[2].numMachines).toBeGreaterThan(costs.scales[1].numMachines);
});

test("targets that are missed: the plan is told, and the exit says so", async () => {
  const { stdout, stderr, exitCode } = await plan(...H100S, "--slo", "ttft=1ms");
  expect(stdout).toMatch(/missed/);
  expect(stderr).toMatch(/error \[plan_targets_missed\]: expected a configuration within ttft=1ms, got TTFT/);
  expect(exitCode).toBe(1);
});

test("what does not fit: the arithmetic, and what would", async () => {
  const { stderr, exitCode } = await plan("--model", "llama-3.1-405b", "--hardware", "a10g", "--json");
  const { error } = JSON.parse(stderr);
  expect(error).toMatchObject({ code: "plan_does_not_fit" });
  expect(error.message).toMatch(/756 GiB of weights/);
  expect(error.hint).toMatch(/holds it in[\s\S]*fits on this machine/);
  expect(exitCode).toBe(1);
});

describe("wrong inputs: each a clear, coded answer", () => {
  const OK = ["--model", "llama-3.1-8b", "--hardware", "h100"] as const;
  const here = ["--model", "llama-3.1-8b", "--hardware", "cpu"] as const;
  const FILES: Readonly<Record<string, string>> = {
    "broken.json": "{",
    "list.json": "[]",
    "other.json": '{"a": 1}',
    "empty-results.json": '{"model": {"path": "x"}, "results": []}',
    "no-runs.json": '{"format": "millrace-bench", "runs": []}',
    "prices.json": '{"h100": -1}',
    "prices-text.json": '{"h100": "cheap"}',
    "not-a-model.gguf": "hello",
    "hf/config.json": "{}",
    "hf/model.safetensors": "x",
  };
  mkdirSync(at("hf"));
  for (const [name, content] of Object.entries(FILES)) writeFileSync(at(name), content);
  const CASES: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["no model", ["--hardware", "h100"], /invalid_option.*expected --model, got none/],
    ["an unknown model", ["--model", "gpt-5", "--hardware", "h100"], /invalid_option.*known name, got "gpt-5"/],
    ["an empty model", ["--model", "", "--hardware", "h100"], /invalid_option.*got ""/],
    ["a model that is not there", ["--model", "./none/model", "--hardware", "h100"], /file_unreadable.*got neither/],
    ["a file that is not there", ["--model", "none.gguf", "--hardware", "h100"], /file_unreadable/],
    ["a file that is no GGUF", ["--model", at("not-a-model.gguf"), "--hardware", "cpu-8"], /gguf_/],
    ["a folder without weights", ["--model", folder, "--hardware", "h100"], /file_unreadable/],
    [
      "a folder with broken weights",
      ["--model", at("hf"), "--hardware", "h100"],
      /safetensors_|model_config|model_tensor/,
    ],
    ["a bad hub name", ["--model", "hf:org", "--hardware", "h100"], /hub_spec/],
    ["a hub name that leads out", ["--model", "hf:../../etc", "--hardware", "h100"], /hub_spec/],
    ["an unknown GPU", ["--model", "llama-3.1-8b", "--hardware", "h300"], /invalid_option.*got "h300"/],
    ["an empty machine", ["--model", "llama-3.1-8b", "--hardware", ""], /invalid_option.*got ""/],
    ["no GPUs", ["--model", "llama-3.1-8b", "--hardware", "h100x0"], /invalid_option.*1 to 8 h100/],
    ["more GPUs than a machine has", ["--model", "llama-3.1-8b", "--hardware", "h100x16"], /invalid_option.*got 16/],
    ["a GPU count in words", ["--model", "llama-3.1-8b", "--hardware", "h100xtwo"], /invalid_option.*got "h100xtwo"/],
    ["a negative GPU count", ["--model", "llama-3.1-8b", "--hardware", "h100x-2"], /invalid_option/],
    ["zero concurrency", [...OK, "--concurrency", "0"], /invalid_option.*--concurrency to be an integer in \[1/],
    ["half a request", [...OK, "--concurrency", "1.5"], /invalid_option.*--concurrency/],
    ["negative concurrency", [...OK, "--concurrency", "-4"], /invalid_option.*--concurrency/],
    ["zero requests a second", [...OK, "--rps", "0"], /invalid_option.*--rps/],
    ["requests in words", [...OK, "--rps", "many"], /invalid_option.*--rps/],
    [
      "both kinds of load",
      [...OK, "--rps", "1", "--concurrency", "2"],
      /invalid_option.*--concurrency or --rps, got both/,
    ],
    [
      "more requests than it can serve",
      [...OK, "--rps", "100000", "--slo", "tpot=0.1ms"],
      /plan_targets_missed.*more requests come than it can serve/,
    ],
    [
      "the host's memory beside several hosts",
      ["--model", "qwen3-30b-a3b", "--hardware", "rtx4090", "--hosts", "2", "--host-memory", "64"],
      /invalid_option.*expected --hosts 1 beside --host-memory, got 2$/,
    ],
    [
      "a model that is too large, where several weight types are",
      ["--model", "deepseek-v3", "--hardware", "rtx4090"],
      /plan_does_not_fit.*expected deepseek-v3 to fit on RTX 4090 24 GB, got$/,
    ],
    ["no prompt", [...OK, "--input-tokens", "0"], /invalid_option.*--input-tokens/],
    ["no answer", [...OK, "--output-tokens", "0"], /invalid_option.*--output-tokens/],
    ["tokens in words", [...OK, "--input-tokens", "1k"], /invalid_option.*got "1k"/],
    ["a prompt beyond the context", [...OK, "--input-tokens", "200000"], /invalid_option.*within 131072 tokens/],
    [
      "a request beyond --max-model-len",
      [...OK, "--max-model-len", "1000"],
      /invalid_option.*--max-model-len 1000, got 1024 \+ 512/,
    ],
    ["--max-model-len beyond the model's", [...OK, "--max-model-len", "1000000"], /invalid_option.*at most 131072/],
    ["a share above one", [...OK, "--prefix-share", "1.5"], /invalid_option.*--prefix-share/],
    ["a share in percent", [...OK, "--prefix-share", "50%"], /invalid_option.*--prefix-share/],
    ["a target without a name", [...OK, "--slo", "200ms"], /invalid_option.*--slo/],
    ["a target of an unknown name", [...OK, "--slo", "latency=1s"], /invalid_option.*--slo/],
    ["a target in hours", [...OK, "--slo", "ttft=1h"], /invalid_option.*--slo/],
    ["a target of zero", [...OK, "--slo", "ttft=0"], /invalid_option.*above 0/],
    ["a target that plans do not know", [...OK, "--slo", "e2e=5s"], /invalid_option.*ttft and tpot/],
    ["an impossible target", [...OK, "--slo", "tpot=0.01ms"], /plan_targets_missed/],
    ["an unknown objective", [...OK, "--objective", "fun"], /invalid_option.*throughput, cost, latency/],
    ["an unknown task", [...OK, "--task", "hard"], /invalid_option.*--task/],
    ["an unknown engine", [...OK, "--engine", "exllama"], /invalid_option.*--engine/],
    ["an engine that is not for this machine", [...OK, "--engine", "millrace"], /invalid_option.*millrace.*CPU/],
    [
      "a GPU engine on a CPU",
      ["--model", "llama-3.1-8b", "--hardware", "cpu-16", "--engine", "vllm"],
      /invalid_option.*vllm.*GPU/,
    ],
    ["an unknown weight type", [...OK, "--quantization", "int3"], /invalid_option.*--quantization/],
    [
      "a weight type the GPU lacks",
      ["--model", "llama-3.1-8b", "--hardware", "a100", "--quantization", "fp8"],
      /invalid_option.*A100.*fp8/,
    ],
    ["a GGUF type on a GPU", [...OK, "--quantization", "q4_k_m"], /invalid_option.*q4_k_m/],
    ["a quality above all", [...OK, "--min-quality", "101"], /invalid_option.*--min-quality/],
    [
      "a model published in a type that no file has, and no leave to take another",
      ["--model", "deepseek-v3", "--hardware", "cpu-32"],
      /invalid_option.*that the rules may choose, got none: GGUF Q8_0: published figures alone speak for it/,
    ],
    ["a price of nothing", [...OK, "--price", "0"], /invalid_option.*--price/],
    ["two prices", [...OK, "--price", "1", "--prices", at("prices.json")], /invalid_option.*got both/],
    ["a price below nothing", [...OK, "--prices", at("prices.json")], /invalid_option.*a price of h100 in/],
    ["a price in words", [...OK, "--prices", at("prices-text.json")], /model_config|invalid_option/],
    ["prices that are not there", [...OK, "--prices", at("none.json")], /file_unreadable/],
    ["prices that are no object", [...OK, "--prices", at("list.json")], /expected a JSON object/],
    ["speeds beside a named machine", [...OK, "--memory-bandwidth", "50"], /invalid_option.*--hardware cpu or detect/],
    ["no bandwidth", [...here, "--memory-bandwidth", "0"], /invalid_option.*--memory-bandwidth/],
    [
      "results that are no JSON",
      ["--model", "llama-3.1-8b", "--hardware", "cpu-8", "--calibrate", at("broken.json")],
      /expected JSON/,
    ],
    [
      "results of something else",
      ["--model", "llama-3.1-8b", "--hardware", "cpu-8", "--calibrate", at("other.json")],
      /invalid_option.*bench engine or bench kernels/,
    ],
    [
      "results without rows",
      ["--model", "llama-3.1-8b", "--hardware", "cpu-8", "--calibrate", at("empty-results.json")],
      /invalid_option.*bench engine/,
    ],
    ["a measurement of another machine", [...OK, "--measure"], /invalid_option.*--hardware cpu, got H100/],
    ["a CPU's results for a GPU", [...OK, "--calibrate", at("other.json")], /invalid_option.*bench run.*H100/],
    ["a bench without runs", [...OK, "--calibrate", at("no-runs.json")], /invalid_option.*expected runs with results/],
    ["no rows", [...OK, "--top", "0"], /invalid_option.*--top/],
    ["an option nobody knows", [...OK, "--gpus", "2"], /an option of this command, got --gpus$/],
    ["an API without a price", ["costs", ...OK, "--api", "cheap"], /invalid_option.*--api/],
    [
      "a model bigger than everything",
      ["--model", "deepseek-v3", "--hardware", "a10gx8"],
      /plan_does_not_fit[\s\S]*weights/,
    ],
    ["a model bigger than the CPU", ["--model", "llama-3.1-405b", "--hardware", "cpu-8"], /plan_does_not_fit/],
  ];

  test.each([
    ["--html", "none/x.html", /^error \[invalid_option\]: expected a folder for/],
    ["--html", "other.json/x.html", /^error \[invalid_option\]: expected to write/],
    ["--yaml", "none/x.yaml", /^error \[invalid_option\]: expected a folder for/],
  ])("a place that cannot be written is told before the plan: %s %s", async (flag, file, expected) => {
    const { stdout, stderr, exitCode } = await plan(...OK, flag, at(file));
    expect(stderr).toMatch(expected);
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 2 });
  });

  test("there are fifty of them", () => expect(CASES.length).toBeGreaterThanOrEqual(50));

  test.each(CASES)("%s", async (_, args, expected) => {
    const { stderr, exitCode } = await plan(...args);
    expect(stderr).toMatch(/^error \[[a-z_]+\]: /);
    expect(stderr).not.toMatch(/internal_error/);
    expect(stderr.split("\n")[0]).toMatch(expected);
    expect(exitCode).not.toBe(0);
  });
});
