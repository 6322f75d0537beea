/** `millrace tune`, as a process: what it refuses before it starts a server. `tune.long.test.ts` tunes one. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { tempTree } from "../scripts/temp-tree.js";

const refusal = async (...args: readonly string[]): Promise<Ended> => runCli("tune", "--out", tempTree({}), ...args);

test("several loads, a goodput without limits and unknown objectives are refused, with the mend", async () => {
  const [loads, goodput, objective] = await Promise.all([
    refusal("--shape", "16/8", "--concurrency", "1,2"),
    refusal("--shape", "16/8", "--objective", "goodput"),
    refusal("--objective", "speed"),
  ]);
  expect(loads).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/invalid_option.*one load, got 2.*\n.*--concurrency 8/),
  });
  expect(goodput).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/expected --slo .*\n.*--slo ttft=200/) });
  expect(objective).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("throughput, goodput") });
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
