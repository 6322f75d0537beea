/** `millrace bench`, as a process on a tiny model: the shape of its JSON, its table, and what it refuses. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { type Ended, runCli } from "../helpers/run-cli.js";

const STORIES = fixture("models/stories260k.gguf");

const run = (...args: readonly string[]): Promise<Ended> => runCli("bench", ...args);

const bench = (...args: readonly string[]): Promise<Ended> => run("engine", "--model", STORIES, ...args);

const SMALL = ["--prompt-tokens", "24", "--gen-tokens", "6", "--repetitions", "2"];

test("--json prints one object: medians, spreads and samples per batch size, and the machine", async () => {
  const { stdout, stderr, exitCode } = await bench(...SMALL, "--batch", "1,3", "--threads", "1", "--json");
  expect({ stderr, exitCode }).toMatchObject({ stderr: expect.stringContaining("batch 3, round 2 of 2"), exitCode: 0 });
  const report = JSON.parse(stdout);
  expect(Object.keys(report)[0]).toBe("results");
  expect(report.results.map((result: { batch: number }) => result.batch)).toEqual([1, 3]);
  for (const result of report.results) {
    expect(result).toMatchObject({ promptTokens: 24, genTokens: 6, sharedPrefix: 0 });
    expect(result.samples).toHaveLength(2);
    const [a, b] = result.samples;
    // Printed figures have nine digits.
    expect(result.decodeTokensPerS / ((a.decodeTokensPerS + b.decodeTokensPerS) / 2)).toBeCloseTo(1, 6);
    expect(a.decodeTokensPerS / ((1000 * result.batch * 5) / a.decodeMs)).toBeCloseTo(1, 6);
    expect(a.prefillTokensPerS / ((1000 * result.batch * 24) / a.prefillMs)).toBeCloseTo(1, 6);
    expect(a.prefillMs).toBeGreaterThan(a.prefillKernelMs);
    expect(result.samples.map((sample: { numCachedTokens: number }) => sample.numCachedTokens)).toEqual([0, 0]);
    expect(result.decodeSummary).toMatchObject({ median: result.decodeTokensPerS });
  }
  expect(report).toMatchObject({
    engine: { numThreads: 1, weightType: "F32" },
    machine: { numCpus: expect.any(Number), cpu: expect.any(String) },
    versions: { node: process.versions.node },
  });
});

test("a shared prefix is computed once and then comes from the cache", async () => {
  const { stdout } = await bench(...SMALL, "--shared-prefix", "16", "--batch", "4", "--json");
  for (const sample of JSON.parse(stdout).results[0].samples) expect(sample.numCachedTokens).toBe(3 * 16);
});

test("without --json it prints a table", async () => {
  const { stdout } = await bench(...SMALL, "--batch", "2");
  expect(stdout).toMatch(/^batch +prompt +generated +prefill tokens\/s +spread +decode tokens\/s +spread$/m);
  expect(stdout).toMatch(/^2 +24 +6 +[\d.]+ +[\d.]+ % +[\d.]+ +[\d.]+ %$/m);
});

test("too little KV memory for the batch is an error, not a slow number", async () => {
  // Room for two such sequences, at 640 bytes a token.
  const { stderr, exitCode } = await bench(
    "--prompt-tokens",
    "40",
    "--gen-tokens",
    "6",
    "--batch",
    "3",
    "--kv-cache-memory-bytes",
    "64KiB",
  );
  expect(stderr).toMatch(/^error \[kv_capacity_exceeded\]: /m);
  expect(exitCode).toBe(1);
});

test("bench kernels compares each operation with the ceilings of the same run, and decoding with the bandwidth", async () => {
  const built = spawnSync(process.execPath, [join(repositoryRoot(), "scripts/build-native.js"), "--probes"]);
  expect(built.status).toBe(0);
  const small = ["--ops", "linear,small", "--types", "Q4_0", "--rows", "1,4", "--min-time-ms", "1", "--threads", "1"];
  const { stdout } = await run("kernels", ...small, "--model", STORIES, "--json");
  const { results, decode } = JSON.parse(stdout);
  const [one, four] = results;
  expect([one.shape, four.shape]).toEqual(["1 × 2048 → 5632", "4 × 2048 → 5632"]);
  expect(one.gbPerS).toBeCloseTo((5632 * 2048 * 4.5) / 8 / one.seconds / 1e9, 6);
  const memorySeconds = one.gbPerS / one.ceilingGbPerS;
  const arithmeticSeconds = one.gmacPerS / one.ceilingGmacPerS;
  expect(one.rooflineShare).toBeCloseTo(Math.max(memorySeconds, arithmeticSeconds), 6);
  const embed = results.find(({ op }: { op: string }) => op === "embed Q4_0");
  expect(Object.keys(embed)).toEqual(["op", "shape", "mix", "seconds"]);
  expect(decode.gbPerS).toBeCloseTo((decode.tokensPerS * decode.bytesPerToken) / 1e9, 6);
});

test("grammars: compile times and masks of every schema", async () => {
  const { stdout, exitCode } = await run("grammars", "--model", STORIES, "--rounds", "2", "--json");
  expect(exitCode).toBe(0);
  const report = JSON.parse(stdout);
  expect(report).toMatchObject({ vocabSize: 512, startMs: expect.any(Number), machine: { cpu: expect.any(String) } });
  expect(report.results.length).toBeGreaterThan(3);
  for (const { numTokens, compileMs, maskMs } of report.results) {
    expect(numTokens).toBeGreaterThan(5);
    expect(compileMs.median).toBeGreaterThan(0);
    expect(maskMs.max).toBeGreaterThanOrEqual(maskMs.p90);
  }
});
