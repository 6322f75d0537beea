/**
 * `millrace bench run`, `compare` and `self-test` as processes: against the mock server, against a real one, killed,
 * stopped, and with a server that dies.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { type RunningMock, startMock } from "../../src/bench/mock/start-mock.js";
import { type BenchReport, readReport } from "../../src/bench/results/schema.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { startTestServer } from "../helpers/server.js";

const LAUNCHER = join(repositoryRoot(), "bin/millrace.js");
const folder = mkdtempSync(join(tmpdir(), "bench-run-"));
const file = (name: string) => join(folder, name);
afterAll(() => rmSync(folder, { recursive: true }));

let mock: RunningMock;
beforeEach(async () => {
  mock = await startMock({ ttftMs: 20, tpotMs: 4, tokensPerChunk: 2 });
});
afterEach(() => mock.stop());

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

function start(...args: readonly string[]): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
  const child = spawn(process.execPath, [LAUNCHER, "bench", ...args]);
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
    });
  }
  return {
    child,
    ended: new Promise((resolve) => child.once("close", (exitCode) => resolve({ ...output, exitCode }))),
  };
}

const run = (...args: readonly string[]): Promise<Ended> => start(...args).ended;

/** Of tests that start several servers one after the other. */
const SERVERS_TIMEOUT_MS = 300_000;
const STORIES = join(repositoryRoot(), "test/fixtures/models/stories260k.gguf");
const SMALL = ["--shape", "16/9", "--concurrency", "1,3", "--requests", "6", "--rounds", "2"];

/** Resolves once so many runs are saved. */
async function untilSaved(path: string, numRuns: number): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (existsSync(path) && readReport(path).runs.length >= numRuns) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited 30 s for ${numRuns} runs in ${path}`);
}

function placesOf({ runs }: BenchReport): string[] {
  return runs.map(({ target, cell, round }) => `${target}, ${cell}, ${round}`).sort();
}

test("a run is saved in all formats, with its settings and the server's facts", async () => {
  const forms = ["--out", file("a.json"), "--html", file("a.html"), "--md", file("a.md")];
  const args = ["run", "--url", mock.url, "--name", "mock", ...SMALL, ...forms];
  const { stdout, stderr, exitCode } = await run(...args, "--slo", "ttft=1000", "--price-per-hour", "2");
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  expect(stdout).toMatch(/^cell .*output tokens\/s.*TTFT p50.*SLO met.*per M output tokens/m);
  const report = readReport(file("a.json"));
  expect(report).toMatchObject({ isComplete: true, targets: [{ name: "mock", model: "mock", promptsAs: "text" }] });
  expect(placesOf(report)).toHaveLength(4);
  for (const { metrics, requests } of report.runs) {
    expect(metrics).toMatchObject({ numRequests: 6, failures: [], outputTokens: 54, promptTokens: 96 });
    expect(metrics.tokensPerChunk).toBeCloseTo(9 / 5);
    expect(metrics.ttftMs!.min).toBeGreaterThan(19.9);
    expect(metrics.slo?.attainment).toBe(1);
    expect(requests.every((request) => request.output === 9 && request.sentMs >= request.intendedMs)).toBe(true);
  }
  expect(readFileSync(file("a.md"), "utf8")).toContain("| 16/9, 3 at once");
  expect(readFileSync(file("a.html"), "utf8")).toContain("</html>");
  // Nothing is left to do, and nothing is done twice.
  const again = await run(...args, "--slo", "ttft=1000", "--price-per-hour", "2", "--resume", "--json");
  expect(readReport(file("a.json")).runs).toEqual(report.runs);
  expect(JSON.parse(again.stdout).runs).toEqual(report.runs);
  const other = await run(...args, "--resume");
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected --resume with the options") });
});

test("a killed run resumes, and a stopped run reports its measurements so far", async () => {
  const args = ["run", "--url", mock.url, "--name", "mock", ...SMALL, "--rounds", "5", "--out", file("killed.json")];
  const killed = start(...args);
  await untilSaved(file("killed.json"), 3);
  killed.child.kill("SIGKILL");
  await killed.ended;
  const stopped = start(...args, "--resume", "--md", file("stopped.md"));
  await untilSaved(file("killed.json"), 5);
  stopped.child.kill("SIGINT");
  const { exitCode, stderr } = await stopped.ended;
  expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining("incomplete: stopped") });
  expect(readFileSync(file("stopped.md"), "utf8")).toContain("**Incomplete");
  expect(readReport(file("killed.json")).isComplete).toBe(false);
  expect(await run(...args, "--resume")).toMatchObject({ exitCode: 0 });
  const report = readReport(file("killed.json"));
  expect(report.isComplete).toBe(true);
  expect(new Set(placesOf(report)).size).toBe(10);
  expect(report.runs).toHaveLength(10);
});

test("a dying server leads to failed requests and an incomplete report, not a crash", async () => {
  const json = file("died.json");
  const args = ["--shape", "16/9", "--concurrency", "3", "--requests", "60", "--rounds", "9", "--out", json];
  const running = start("run", "--url", mock.url, ...args);
  await untilSaved(json, 1);
  await mock.stop();
  const { exitCode, stdout, stderr } = await running.ended;
  expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringMatching(/failed \((connect|broken): /) });
  // All of a run, where it died just between two of them.
  expect(stdout).toMatch(/requests failed|no request was answered/);
  const report = readReport(json);
  expect(report).toMatchObject({ isComplete: false });
  expect(report.runs.length).toBeLessThan(9);
});

test(
  "running peers and a started server are measured under the same cells in turn",
  async () => {
    expect(await (await fetch(`${mock.url}/health`)).json()).toEqual({});
    const peer = ["--peer", `mock=${mock.url}`, "--threads", "1"];
    const json = file("peers.json");
    const { stderr, exitCode } = await run("run", ...peer, "--model", STORIES, ...SMALL, "--out", json);
    expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
    const { runs, targets } = readReport(json);
    expect(runs.slice(0, 4).map(({ round, target }) => `${round} ${target}`)).toEqual([
      "1 millrace",
      "1 mock",
      "2 mock",
      "2 millrace",
    ]);
    expect(targets[0]!.command).toMatch(/engine --model stories260k.gguf .*--threads 1 --max-num-seqs 3/);
    const twice = await run("run", "--url", mock.url, "--peer", mock.url, ...SMALL);
    expect(twice).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("different names") });
  },
  SERVERS_TIMEOUT_MS,
);

test(
  "an ablation starts a server for each of its variants and reports the gain of each layer",
  async () => {
    const small = ["--cells", "ladder", "--shape", "16/9", "--concurrency", "2", "--rounds", "1", "--threads", "2"];
    const forms = ["--out", file("ablation.json"), "--html", file("ablation.html")];
    const { stdout, stderr, exitCode } = await run("ablate", "--model", STORIES, ...small, ...forms);
    expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
    expect(stdout).toMatch(/^cell +vanilla, tokens\/s.*half the threads ÷ vanilla/m);
    const { runs, targets } = readReport(file("ablation.json"));
    expect(new Set(targets.map((target) => target.name))).toEqual(
      new Set(["naive", "vanilla", "all but speculation", "all together", "all, half the threads"]),
    );
    expect(runs).toHaveLength(5);
    expect(runs.flatMap((each) => each.metrics.failures)).toEqual([]);
    expect(targets[0]!.command).toMatch(/--batching static --kv-layout contiguous/);
    expect(targets.at(-1)!.command).toContain("--threads 1");
    expect(await run("ablate", "--from", file("ablation.json"))).toMatchObject({ exitCode: 0, stdout });
    const tooLong = await run("ablate", "--model", STORIES, "--cells", "code edit");
    expect(tooLong).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--scale") });
  },
  SERVERS_TIMEOUT_MS,
);

test("two servers alternate and their ratio has an interval; two files are compared without alternation", async () => {
  const slower = await startMock({ ttftMs: 60, tpotMs: 12, tokensPerChunk: 2 });
  const common = [...SMALL, "--rounds", "3", "--out", file("both.json")];
  const { stdout, exitCode } = await run("compare", `fast=${mock.url}`, `slow=${slower.url}`, ...common);
  expect(exitCode).toBe(0);
  expect(stdout).toContain("fast ÷ slow");
  const { runs } = readReport(file("both.json"));
  expect(runs.slice(0, 4).map(({ round, target }) => `${round} ${target}`)).toEqual([
    "1 fast",
    "1 slow",
    "2 slow",
    "2 fast",
  ]);
  const one = ["--concurrency", "2", "--shape", "16/9", "--requests", "4", "--rounds", "1"];
  await run("run", "--url", mock.url, "--name", "a", ...one, "--out", file("one.json"));
  await run("run", "--url", slower.url, "--name", "b", ...one, "--out", file("two.json"));
  await slower.stop();
  const files = await run("compare", file("one.json"), file("two.json"), "--html", file("both.html"));
  expect(files).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("not in alternation") });
  expect(readFileSync(file("both.html"), "utf8")).toContain("a and b");
});

test("a started real server: scaled chats, its own metrics, CPU and memory", async () => {
  const args = ["--scenario", "agent", "--scale", "0.12", "--concurrency", "2", "--requests", "12", "--rounds", "1"];
  const tooLong = await run("run", "--scenario", "standard", "--threads", "1");
  expect(tooLong.exitCode).toBe(2);
  const { exitCode, stderr } = await run("run", ...args, "--out", file("real.json"), "--server-args", "--threads 1");
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  const [one] = readReport(file("real.json")).runs;
  expect(one!.metrics).toMatchObject({ numRequests: 12, failures: [] });
  expect(one!.metrics.cachedTokens).toBeGreaterThan(0);
  expect(one!.server).toMatchObject({ cacheHitShare: expect.any(Number), queueMs: expect.any(Number), preemptions: 0 });
  expect(one!.process!.peakMemoryBytes).toBeGreaterThan(1 << 25);
  expect(one!.requests.some((request) => request.turn === 5)).toBe(true);
});

test("a running real server: random prompts as ids of exactly the requested length, at a rate", async () => {
  await using server = await startTestServer(["--threads", "1"]);
  const args = ["--url", `${server.url}/v1`, "--shape", "40/5", "--rate", "20", "--requests", "12", "--rounds", "1"];
  const { exitCode, stderr } = await run("run", ...args, "--out", file("rate.json"));
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  const { runs, targets } = readReport(file("rate.json"));
  expect(targets[0]).toMatchObject({ promptsAs: "ids", ignoresEos: true, maxModelLen: 2048 });
  expect(runs[0]!.requests.map(({ prompt, output }) => `${prompt}/${output}`)).toEqual(Array(12).fill("40/5"));
  const long = await run("run", "--url", server.url, "--scenario", "standard");
  expect(long).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/got 3072 in.*\n.*--scale 0\.60/) });
});

test("the self-test reports its measurements and whether they are right", async () => {
  const { stdout, exitCode } = await run("self-test", "--streams", "1,8", "--json");
  const report = JSON.parse(stdout);
  expect(report.results).toHaveLength(2);
  expect(report.isTrusted).toBe(exitCode === 0);
  for (const { tpotError, numFailed, numRequests } of report.results) {
    expect({ numFailed, isEnough: numRequests >= 30 }).toEqual({ numFailed: 0, isEnough: true });
    // Two hundredths where nothing else runs.
    expect(Math.abs(tpotError)).toBeLessThan(0.2);
  }
});

test.each([
  [["run", "--url", "somewhere"], "expected a URL"],
  [["run", "--rate", "1", "--concurrency", "1"], "either --concurrency or --rate"],
  [["run", "--arrivals", "gamma", "--rate", "1"], "expected --burstiness"],
  [["run", "--shape", "5"], "lengths such as 512/128"],
  [["run", "--scenario", "none"], "standard: "],
  [["run", "--slo", "fast"], "expected --slo"],
  [["run", "--resume"], "expected --out with --resume"],
  [["compare", "http://127.0.0.1:1", "b.json"], "two URLs or two files"],
  [["compare", "http://127.0.0.1:1", "http://127.0.0.1:1"], "expected servers of different names"],
] as const)("%j is refused", async (args, message) => {
  const { exitCode, stderr } = await run(
    ...args,
    ...(args[0] === "run" && !args.includes("--url" as never) ? ["--url", mock.url] : []),
  );
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) });
});
