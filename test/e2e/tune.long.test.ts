/**
 * `millrace tune` on the bundled model: a planted fault is named and mended, and a journal is not repeated. Servers
 * take turns, so it needs a quiet machine.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import type { Tuning } from "../../src/lab/tune/loop.js";
import type { EndedRun } from "../../src/lab/tune/runs.js";
import { runCli } from "../helpers/run-cli.js";
import { tempTree } from "../scripts/temp-tree.js";

const MINUTE_MS = 60_000;
const FAULT = ["--server-args", "--max-num-seqs 1", "--shape", "96/32", "--requests", "48", "--json"];

const tuned = async (out: string, ...args: readonly string[]): Promise<Tuning> => {
  const { stdout, stderr, exitCode } = await runCli("tune", ...FAULT, "--out", out, ...args);
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  return JSON.parse(stdout) as Tuning;
};

test(
  "one seat for eight clients is the bottleneck; more seats are kept, and the files say so",
  async () => {
    const out = tempTree({});
    const { first, best, total, trials } = await tuned(out, "--max-trials", "2");
    expect(first.bottleneck).toBe("seats");
    expect(trials[0]).toMatchObject({ outcome: "kept", proposal: { bottleneck: "seats", isLossy: false } });
    expect(Number(best["max-num-seqs"])).toBeGreaterThan(1);
    expect(total!.low).toBeGreaterThan(1);
    for (const file of ["report.html", "report.md", "tune.json"]) expect(existsSync(join(out, file))).toBe(true);
    const { models } = parse(readFileSync(join(out, "millrace.yaml"), "utf8"));
    expect(models[0].args).toEqual(["--max-num-seqs", best["max-num-seqs"]]);
    const resumed = await tuned(out, "--max-trials", "3", "--resume");
    expect(resumed.trials.slice(0, 2)).toEqual(trials);
    expect(resumed.trials).toHaveLength(3);
  },
  10 * MINUTE_MS,
);

test(
  "the same command run again is compared with the run before",
  async () => {
    const out = tempTree({});
    const again = ["--again", "--max-trials", "0", "--max-drift", "100"] as const;
    const first = (await tuned(out, ...again)) as Tuning & { readonly run: EndedRun };
    expect(first.run).toMatchObject({ name: expect.stringMatching(/^0001-/) });
    expect(first.run.drift).toBeUndefined();
    const { run } = (await tuned(out, ...again)) as Tuning & { readonly run: EndedRun };
    expect(run).toMatchObject({ previous: first.run.name, drift: { changes: [], winner: { isSame: true } } });
    expect(run.drift!.ratio!.low).toBeLessThan(run.drift!.ratio!.value);
  },
  10 * MINUTE_MS,
);
