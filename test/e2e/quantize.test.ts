/** `millrace quantize`, as a process on the bundled models: the file that it writes, its gate, and what it refuses. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { chatAt, families, readMixture } from "../../models/corpus/families.js";
import { readGguf } from "../../src/formats/gguf/read.js";
import { writeGguf } from "../../src/formats/gguf/write.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { cases, isLongRun } from "../helpers/long.js";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { runMain } from "../helpers/run-main.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

// Several runs of the quantiser in each test, which machines that others use compute in twice the time.
vi.setConfig({ testTimeout: cases(180_000, 600_000) });

const BASE = join(repositoryRoot(), "models/mill-base.gguf");
/** A tenth of the size, for tests of files and flags. */
const SMALL = join(repositoryRoot(), "models/mill-student.gguf");
const quantize = (...args: readonly string[]): Promise<Ended> => runCli("quantize", "--model", BASE, ...args);
const quantizeSmall = (...args: readonly string[]): Promise<Ended> => runCli("quantize", "--model", SMALL, ...args);

/** For refusals before any work: in this process, without a start of Node for each. */
const refusal = (...args: readonly string[]): Promise<Ended> => runMain("quantize", "--model", BASE, ...args);

/** In `npm test` the least that the flag takes. */
const CALIBRATION_TOKENS = ["--calibration-tokens", `${cases(4096, 65_536)}`];

/** Chats of the corpus, so many of each family, as lines. */
const chats = (seed: number, count: number, wanted = families.map(({ name }) => name)): string =>
  wanted
    .flatMap((name) => {
      const mixture = readMixture(name);
      return Array.from({ length: count }, (_, index) => JSON.stringify(chatAt(seed, index, mixture)));
    })
    .join("\n");

test("a third of the size with nearly the same predictions", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 10) });
  const out = join(root, "q4.gguf");
  const calibrate = ["--calibrate", join(root, "mine.jsonl"), ...CALIBRATION_TOKENS, "--json"];
  const ended = await quantize(...calibrate, "--out", out);
  expect(ended).toMatchObject({ exitCode: 0 });
  const { chosen, original } = JSON.parse(ended.stdout);
  expect(chosen).toMatchObject({ method: "Q4_K_M", path: out, numBytes: statSync(out).size });
  expect(chosen.weightBytes / original.weightBytes).toBeLessThan(0.35);
  expect(chosen.loss.meanKl).toBeLessThan(0.02);
  expect(chosen.loss.sameTop).toBeGreaterThan(0.93);
  const card = readFileSync(join(root, "q4.md"), "utf8");
  expect(card).toMatch(/\| calibrated with \| mine\.jsonl \(SHA-256 [0-9a-f]{64}\), \d{4,} tokens \|/);
  expect(card).toContain(
    `| KL divergence | ${chosen.loss.meanKl.toFixed(5)} nats, over ${chosen.loss.numTokens} tokens |`,
  );
  expect(card).toMatch(/\| made \| \d{4}-\d\d-\d\d, by millrace \d+\./);
  const { metadata, tensors } = readGguf(out);
  expect(metadata.get("general.file_type")).toBe(15);
  expect(tensors.get("blk.0.attn_q.weight")!.type).toBe("Q4_K");
  if (isLongRun) {
    const nearest = await quantize(...calibrate, "--rounding", "nearest", "--out", join(root, "nearest.gguf"));
    const plain = JSON.parse(nearest.stdout).chosen;
    // The default, GPTQ's, loses a third less.
    expect(chosen.loss.meanKl).toBeLessThan(0.67 * plain.loss.meanKl);
    expect(plain.numBytes).toBe(chosen.numBytes);
  }
});

test("the matrix of importance is kept for the next time", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 3) });
  const [first, again, imatrix] = ["first.gguf", "again.gguf", "importance.gguf"].map((name) => join(root, name));
  const calibrate = ["--calibrate", join(root, "mine.jsonl"), ...CALIBRATION_TOKENS, "--rounding", "nearest"];
  const saving = ["--save-imatrix", imatrix!, "--out", first!];
  expect(await quantizeSmall(...calibrate, ...saving)).toMatchObject({ exitCode: 0 });
  expect(await quantizeSmall("--imatrix", imatrix!, "--out", again!)).toMatchObject({ exitCode: 0 });
  expect(readFileSync(again!).equals(readFileSync(first!))).toBe(true);
});

test("a file that answers worse is kept aside with its figures, and the next method is tried", async () => {
  const root = tempTree({ "questions.jsonl": chats(1_000_001, cases(30, 100), ["extract", "sort"]) });
  const out = join(root, "small.gguf");
  const args = ["--evals", join(root, "questions.jsonl"), "--max-drop", "8", "--max-tokens", "64"];
  const ended = await quantize("--method", "q2_k,q8_0", ...args, "--out", out, "--json");
  expect(ended).toMatchObject({ exitCode: 0 });
  const { candidates, chosen } = JSON.parse(ended.stdout);
  expect(candidates.map(({ method }: { method: string }) => method)).toEqual(["Q2_K", "Q8_0"]);
  expect(candidates[0].quality.overall.drop).toBeGreaterThan(0.02);
  expect(chosen).toMatchObject({ method: "Q8_0", quality: { verdict: "passes" } });
  const end = candidates[0].quality.verdict === "fails" ? "failed" : "undecided";
  const aside = join(root, `small.Q2_K.${end}.gguf`);
  expect([existsSync(aside), JSON.parse(readFileSync(`${aside}.json`, "utf8")).method]).toEqual([true, "Q2_K"]);
  // The report of what passed is of these bytes, so that a plan of the file knows it as measured.
  const planned = await runMain(
    "plan",
    "--model",
    out,
    "--hardware",
    "cpu-8",
    "--max-model-len",
    "64",
    "--input-tokens",
    "32",
    "--output-tokens",
    "16",
    "--json",
  );
  expect(JSON.parse(planned.stdout).configurations[0].quantization).toMatchObject({ grade: "measured" });
  const card = readFileSync(join(root, "small.md"), "utf8");
  const sha256 = createHash("sha256").update(readFileSync(args[1]!)).digest("hex");
  expect(card).toContain(
    `| gate | a drop of less than 8.0 points with 95 % confidence, on questions.jsonl (SHA-256 ${sha256}) |`,
  );
  expect(card).toMatch(/\| answers \| passes: a drop of -?\d+\.\d points \(.* to .*\) over \d+ items, /);
  expect(readFileSync(aside.replace(/gguf$/, "md"), "utf8")).toMatch(/\| answers \| (fails|undecided): a drop of \d/);
  // A second run would replace it.
  for (const name of ["small.gguf", "small.gguf.json", "small.md"]) rmSync(join(root, name));
  const again = await refusal("--method", "q2_k", ...args, "--out", join(root, "small.gguf"));
  expect(again).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(`small.Q2_K.${end}.gguf`) });
});

test("auto tries from a type on, in the order of sizes, and keeps the first that passes", async () => {
  const root = tempTree({ "questions.jsonl": chats(1_000_001, 20, ["extract"]) });
  const out = join(root, "auto.gguf");
  const gate = ["--evals", join(root, "questions.jsonl"), "--max-drop", "50", "--max-tokens", "32", "--json"];
  const ended = await quantize("--method", "auto:q5_k_s", ...gate, "--out", out);
  expect(ended).toMatchObject({ exitCode: 0 });
  const { candidates, chosen } = JSON.parse(ended.stdout);
  expect(candidates.map(({ method }: { method: string }) => method)).toEqual(["Q5_K_S"]);
  expect(chosen).toMatchObject({ path: out, quality: { verdict: "passes" } });
  for (const [args, message] of [
    [["--method", "auto", "--out", join(root, "x.gguf")], "--evals to be given beside --method auto"],
    [["--method", "auto:q9", ...gate, "--out", join(root, "x.gguf")], "--method to be auto, or of Q8_0"],
    [["--method", "auto:int4_128", ...gate, "--out", join(root, "x.gguf")], "a folder for INT4_128"],
    [["--method", "auto,q4_0", ...gate, "--out", join(root, "x.gguf")], "--method to be auto alone"],
  ] as const) {
    expect(await refusal(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
});

test("unknown types, folders, present files and foreign matrices are refused", async () => {
  const root = tempTree({ "there.gguf": "", "short.txt": "One line." });
  writeGguf(join(root, "foreign.gguf"), { metadata: {}, tensors: [] });
  const out = join(root, "new.gguf");
  const [foreign, short, endless] = await Promise.all([
    quantize("--imatrix", join(root, "foreign.gguf"), "--out", out),
    quantize("--calibrate", join(root, "short.txt"), "--out", out),
    quantize("--calibrate", "/dev/zero", "--out", out),
  ]);
  const type = await refusal("--method", "Q9", "--out", out);
  const folder = await refusal("--out", join(root, "folder"));
  const present = await refusal("--out", join(root, "there.gguf"));
  const gptq = await refusal("--rounding", "gptq", "--out", out);
  const gate = await refusal("--max-drop", "5", "--out", out);
  const refused = (message: RegExp) => ({ exitCode: 2, stderr: expect.stringMatching(message) });
  expect(type).toMatchObject(refused(/--method to be auto, or of Q8_0, .*INT4_128, got "Q9"/));
  expect(folder).toMatchObject(refused(/--out to be a name that ends in \.gguf/));
  expect(present).toMatchObject(refused(/expected nothing at \S+there\.gguf yet/));
  expect(foreign).toMatchObject(refused(/importance matrix in .*foreign\.gguf, got a file of type model/));
  expect(short).toMatchObject(refused(/at least 8 texts or windows/));
  expect(gptq).toMatchObject(refused(/--calibrate to be given beside --rounding gptq/));
  const irregular = /texts in \/dev\/zero, got something that is not a regular file/;
  expect(endless).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(irregular) });
  expect(gate).toMatchObject(refused(/--evals to be given beside --max-drop/));
  expect(existsSync(out)).toBe(false);
});

/** Of one matrix of two columns. */
function writeImportanceOf(name: string, path: string): void {
  const sums = new Uint8Array(Float32Array.of(1, 2).buffer);
  writeGguf(path, {
    metadata: { "general.type": { type: "string", value: "imatrix" } },
    tensors: [
      { name: `${name}.in_sum2`, type: "F32", shape: [2, 1], data: sums },
      { name: `${name}.counts`, type: "F32", shape: [1, 1], data: sums.subarray(0, 4) },
    ],
  });
}

test("a file of another model's importance is refused before anything is left", async () => {
  const root = tempTree({});
  const imatrix = join(root, "other.gguf");
  writeImportanceOf("blk.0.attn_q.weight", imatrix);
  const ended = await quantize("--imatrix", imatrix, "--out", join(root, "new.gguf"));
  expect(ended).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("importance of 256 columns") });
  expect(existsSync(join(root, "new.gguf"))).toBe(false);
});

test("an importance matrix without any of the model's matrices is refused, and so is a size below the smallest types", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 10) });
  const imatrix = join(root, "other.gguf");
  writeImportanceOf("foo", imatrix);
  const out = join(root, "new.gguf");
  const other = await quantize("--imatrix", imatrix, "--out", out);
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('of this model, got "one with foo"') });
  const small = await quantize(
    "--max-size",
    "1KiB",
    "--calibrate",
    join(root, "mine.jsonl"),
    ...CALIBRATION_TOKENS,
    "--out",
    out,
  );
  expect(small).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--max-size above 1.93 MiB") });
  expect(small.stderr).not.toContain("calibrat");
  expect(readdirSync(root).sort()).toEqual(["mine.jsonl", "other.gguf"]);
});

// In npm test, src/compress has the choice of types, and the refusal above the flag.
test.runIf(isLongRun).each([SMALL, BASE])(
  "types for a given size of %s are chosen by what their errors cost, and beat one type for all (needs npm run test:long)",
  async (model) => {
    const quantizeIt = (...args: readonly string[]) => runCli("quantize", "--model", model, ...args);
    const root = tempTree({ "mine.jsonl": chats(7, 10) });
    const calibrate = [
      "--calibrate",
      join(root, "mine.jsonl"),
      ...CALIBRATION_TOKENS,
      "--rounding",
      "nearest",
      "--json",
    ];
    const [mixed, plain] = [join(root, "mixed.gguf"), join(root, "plain.gguf")];
    const one = JSON.parse((await quantizeIt("--method", "Q4_K_S", ...calibrate, "--out", plain)).stdout).chosen;
    const ended = await quantizeIt("--max-size", `${one.numBytes}`, ...calibrate, "--out", mixed);
    expect(ended).toMatchObject({ exitCode: 0 });
    const { chosen } = JSON.parse(ended.stdout);
    expect(chosen).toMatchObject({ method: "MIXED", path: mixed, numBytes: statSync(mixed).size });
    expect(chosen.numBytes).toBeLessThanOrEqual(one.numBytes);
    expect(chosen.loss.meanKl).toBeLessThan(one.loss.meanKl);
    const types = new Set([...readGguf(mixed).tensors.values()].map(({ type }) => type));
    expect(types.size).toBeGreaterThan(model === BASE ? 3 : 2);
    expect(readdirSync(root).sort()).toEqual(["mine.jsonl", "mixed.gguf", "mixed.md", "plain.gguf", "plain.md"]);
    // Above the size of the smallest types, and below that of a choice which answers well.
    const size = model === BASE ? "2MiB" : "700KiB";
    const small = await quantizeIt("--max-size", size, ...calibrate.slice(0, 4), "--out", join(root, "x.gguf"));
    expect(small).toMatchObject({
      exitCode: 2,
      stderr: expect.stringMatching(/--max-size of at least (2\.\d+ M|767\.7 K)iB/),
    });
  },
);

test("four bits in groups go into a folder, whose loss is measured; a server makes one of FP8 itself", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 10) });
  const out = join(root, "int4");
  // The search for scales takes most of a run; the next test has one.
  const scaling = isLongRun ? [] : ["--scaling", "none"];
  const calibrate = ["--calibrate", join(root, "mine.jsonl"), ...CALIBRATION_TOKENS, ...scaling];
  const ended = await quantizeSmall("--method", "int4_64", ...calibrate, "--out", out, "--layout", "gptq", "--json");
  expect(ended).toMatchObject({ exitCode: 0 });
  const { chosen } = JSON.parse(ended.stdout);
  expect(chosen).toMatchObject({ method: "INT4_64", path: out });
  expect(chosen.loss.meanKl).toBeLessThan(0.05);
  const config = JSON.parse(readFileSync(join(out, "config.json"), "utf8"));
  expect(readFileSync(join(out, "README.md"), "utf8")).toMatch(/\| KL divergence \| 0\.\d+ nats, over \d+ tokens \|/);
  expect(config.quantization_config).toMatchObject({ quant_method: "gptq", bits: 4, group_size: 64 });
  for (const [args, message] of [
    [["--method", "int4_64", "--out", join(root, "x.gguf")], "a folder for INT4_64"],
    [
      ["--method", "int4_64,q4_0", "--evals", "x", "--out", join(root, "x")],
      "of types of files, or of types of folders",
    ],
    [["--method", "q8_0,q4_0", "--out", join(root, "x.gguf")], "one type where no --evals"],
  ] as const) {
    expect(await refusal(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
  const cache = { MILLRACE_CACHE: join(root, "cache") };
  await using server = await startTestServer(["--model", SMALL, "--quantization", "fp8"], cache);
  const body = JSON.stringify({ model: "mill-student", prompt: "Once", max_tokens: 4, temperature: 0 });
  const response = await fetch(`${server.url}/v1/completions`, { method: "POST", body });
  expect(response.status).toBe(200);
});

test("scales move where the type gains by it: the card says so, and flags that cannot work are refused", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 3) });
  const at = (name: string) => join(root, name);
  const calibrate = ["--calibrate", at("mine.jsonl"), ...CALIBRATION_TOKENS, "--json"];
  const ended = await quantizeSmall("--method", "int8", ...calibrate, "--out", at("int8"));
  expect(ended).toMatchObject({ exitCode: 0 });
  const { chosen } = JSON.parse(ended.stdout);
  expect(chosen.scaled).toMatchObject({ scaling: "smoothquant", numInputs: 12 });
  expect(chosen.scaled.numMoved).toBeGreaterThan(6);
  expect(chosen.loss.meanKl).toBeLessThan(0.001);
  expect(readFileSync(at("int8/README.md"), "utf8")).toMatch(/\| SmoothQuant: moved into the weights for \d+ of 12 /);
  for (const [args, message] of [
    [["--method", "int8", "--scaling", "awq", "--out", at("x")], "--calibrate to be given beside --scaling awq"],
    [["--scaling", "smoothquant", ...calibrate, "--out", at("x.gguf")], "--scaling to be awq or none for Q4_K_M"],
    [["--method", "fp8", "--scaling", "smoothquant", ...calibrate, "--out", at("x")], "awq or none for FP8"],
    [["--scaling", "smooth", ...calibrate, "--out", at("x.gguf")], "awq, smoothquant, none"],
  ] as const) {
    expect(await refusal(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
});

test("a file in the way, a missing folder and too few tokens are told before anything is measured", async () => {
  const root = tempTree({ "mine.jsonl": chats(7, 10), "old.gguf": "" });
  const at = (name: string) => join(root, name);
  const calibrate = ["--calibrate", at("mine.jsonl")];
  for (const [args, message] of [
    [["--out", at("old.gguf")], "expected nothing at"],
    [["--out", at("none/new.gguf")], "expected a folder"],
    [["--out", at("new.gguf"), ...calibrate, "--save-imatrix", at("old.gguf")], "expected nothing at"],
    [["--out", at("new.gguf"), ...calibrate, "--calibration-tokens", "64"], "integer in [4096"],
  ] as const) {
    expect(await refusal(...args)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
});

test("a server makes its own quantised copy, under the name of the model, and finds it again", async () => {
  const cache = tempTree({});
  const args = ["--model", SMALL, "--quantization", "int8"];
  const made: string[] = [];
  for (let start = 0; start < 2; start++) {
    await using server = await startTestServer(args, { MILLRACE_CACHE: cache });
    const { data } = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["mill-student"]);
    const [copy, ...others] = readdirSync(join(cache, "quantized"));
    expect(others).toEqual([]);
    made.push(`${copy} ${statSync(join(cache, "quantized", copy!)).mtimeMs}`);
  }
  expect(made[1]).toBe(made[0]);
  const { exitCode, stderr } = await runCli("engine", ...args.slice(0, 3), "fp3", "--port", "0");
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("int8, int4, q8_0") });
});

/** Starts a run, ends it by a signal once its journal has so many records, and waits for its end. */
async function stoppedAt(record: string, count: number, signal: NodeJS.Signals, args: readonly string[], out: string) {
  const child = spawn(process.execPath, [
    join(repositoryRoot(), "bin/millrace.js"),
    "quantize",
    "--model",
    SMALL,
    ...args,
    "--out",
    out,
  ]);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const journal = join(`${out}.partial`, "journal");
  const numRecords = () => (existsSync(journal) ? readFileSync(journal, "utf8").split(record).length - 1 : 0);
  const isThere = () => child.exitCode !== null || numRecords() >= count;
  await expect.poll(isThere, { timeout: 50_000, interval: 2 }).toBe(true);
  child.kill(signal);
  return { exitCode: await ended, stderr };
}

const STOPPED = [
  ["file.gguf", ["--method", "q4_k_m"], 9],
  // Without the search for scales, which takes most of a run.
  ["folder", ["--method", "int4_64", "--layout", "awq", "--scaling", "none"], 30],
] as const;

test.each(
  STOPPED.slice(0, cases(1, 2)),
)("a %s goes on after kill -9 between its tensors, with the same bytes", async (name, method, numTensors) => {
  const root = tempTree({ "mine.jsonl": chats(7, 3) });
  const args = [...method, "--calibrate", join(root, "mine.jsonl"), "--calibration-tokens", "4096"];
  const [out, whole] = [join(root, name), join(root, `whole-${name}`)];
  expect(await quantizeSmall(...args, "--out", whole)).toMatchObject({ exitCode: 0 });
  expect((await stoppedAt("tensor of", numTensors, "SIGKILL", args, out)).exitCode).toBe(null);
  expect(existsSync(out)).toBe(false);
  const other = await quantizeSmall(...args, "--calibration-tokens", "5000", "--out", out);
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("another --calibration-tokens") });
  const ended = await quantizeSmall(...args, "--threads", "1", "--out", out);
  expect(ended).toMatchObject({ exitCode: 0 });
  expect(ended.stderr).toMatch(/importance +measured by the run that was stopped/);
  expect(ended.stderr).toMatch(/resumed: ([1-9]|[1-9]\d+) of \d+ tensors were there/);
  for (const each of statSync(out).isDirectory() ? readdirSync(out) : [""])
    expect(readFileSync(join(out, each)).equals(readFileSync(join(whole, each))), each).toBe(true);
  const cards = name.endsWith(".gguf") ? ["file.md", "whole-file.md"] : [];
  expect(readdirSync(root).sort()).toEqual([name, "mine.jsonl", `whole-${name}`, ...cards].sort());
});

test("Ctrl-C while the file is judged leaves no file under its name, and the same command goes on", async () => {
  const root = tempTree({ "questions.jsonl": chats(3, cases(40, 100), ["story"]) });
  const out = join(root, "judged.gguf");
  const args = ["--evals", join(root, "questions.jsonl"), "--max-drop", "100", "--max-tokens", "16"];
  const { exitCode, stderr } = await stoppedAt("answers of the model", 1, "SIGINT", args, out);
  expect({ exitCode, stderr }).toMatchObject({
    exitCode: 130,
    stderr: expect.stringContaining("the same command resumes"),
  });
  expect(readdirSync(root).sort()).toEqual(["judged.gguf.partial", "questions.jsonl"]);
  const ended = await quantizeSmall(...args, "--out", out);
  expect(ended.stderr).toMatch(/resumed: (\d+) of \1 tensors were there/);
  expect(readdirSync(root).filter((name) => name.includes("partial"))).toEqual([]);
});
