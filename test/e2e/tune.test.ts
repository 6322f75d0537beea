/** `millrace tune`, as a process: what it refuses before it starts a server. `tune.long.test.ts` tunes one. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { acquireFileLock } from "../../src/core/file-lock.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { tempTree } from "../scripts/temp-tree.js";

const refusal = async (...args: readonly string[]): Promise<Ended> => runCli("tune", "--out", tempTree({}), ...args);

test("several loads, a goodput without limits, a cost at no price and unknown objectives are refused, with the mend", async () => {
  const [loads, goodput, cost, objective] = await Promise.all([
    refusal("--shape", "16/8", "--concurrency", "1,2"),
    refusal("--shape", "16/8", "--objective", "goodput"),
    refusal("--shape", "16/8", "--objective", "cost", "--price-per-hour", "0"),
    refusal("--objective", "speed"),
  ]);
  expect(loads).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/invalid_option.*one load, got 2.*\n.*--concurrency 8/),
  });
  expect(goodput).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/expected --slo .*\n.*--slo ttft=200/) });
  expect(cost).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/--price-per-hour above 0 .*, got 0\n/) });
  expect(objective).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("throughput, goodput") });
});

test("beside the URL of a running server, trials and unknown prices are refused, and so is a server that is gone", async () => {
  const url = "http://127.0.0.1:9";
  const [trials, price, gone] = await Promise.all([
    runCli("tune", "--shape", "16/8", "--url", url, "--max-trials", "2"),
    runCli("tune", "--shape", "16/8", "--url", url, "--objective", "cost", "--model", "mine"),
    runCli("tune", "--shape", "16/8", "--url", url),
  ]);
  expect(trials).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("no flag of trials with --url") });
  expect(price).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/--price-per-hour .*list price.* got --model mine, which has no list price/),
  });
  expect(gone).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("peer_failed") });
});

test("a journal of other options, and a file that is no journal, are not resumed", async () => {
  const saved = { format: "millrace-tune", version: 3, settings: { objective: "e2e" }, trials: [] };
  const folders = [tempTree({ "tune.json": JSON.stringify(saved) }), tempTree({ "tune.json": "{" })];
  const [other, broken] = await Promise.all(
    folders.map((out) => runCli("tune", "--shape", "16/8", "--resume", "--out", out)),
  );
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("got others") });
  expect(broken).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(join(folders[1]!, "tune.json")) });
});

test("intervals that are none, and --resume beside --again, are refused; a folder of another process is left alone", async () => {
  const out = tempTree({});
  const giveBack = await acquireFileLock(join(out, "tune.lock"));
  const [interval, both, locked] = await Promise.all([
    refusal("--shape", "16/8", "--schedule", "hourly"),
    refusal("--shape", "16/8", "--again", "--resume"),
    runCli("tune", "--shape", "16/8", "--again", "--out", out),
  ]);
  giveBack();
  expect(interval).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("daily, weekly, monthly") });
  expect(both).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected --resume to be left out") });
  expect(locked).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("storage_locked") });
});

test("a schedule waits for the time after the last kept run, and a signal ends the wait", async () => {
  const startedAt = new Date(Date.now() - 3_600_000).toISOString();
  const finding = { bottleneck: "seats", because: "" };
  const figures = { best: {}, first: finding, last: finding };
  const run = JSON.stringify({ format: "millrace-tune-run", version: 1, startedAt, facts: {}, figures });
  const out = tempTree({ "0001-2026-01-01/run.json": run });
  const words = ["tune", "--shape", "16/8", "--schedule", "weekly", "--out", out];
  const child = spawn(process.execPath, [join(repositoryRoot(), "bin/millrace.js"), ...words]);
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const line = await new Promise<string>((resolve) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const found = /^next run: .*\n/m.exec(text);
      if (found !== null) resolve(found[0]);
    });
  });
  const due = new Date(Date.parse(startedAt) + 7 * 24 * 3_600_000).toISOString();
  expect(line).toBe(`next run: ${due.slice(0, 16).replace("T", " ")} UTC\n`);
  child.kill("SIGTERM");
  expect(await exited).toBe(143);
});
