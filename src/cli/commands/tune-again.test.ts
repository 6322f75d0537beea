/** The process that keeps running: it retries after a failure, waits after a kept run, and ends with its signal. */
import { expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { MillraceError } from "../../core/errors.js";
import type { Tuning } from "../../lab/tune/loop.js";
import { keptRuns } from "../../lab/tune/runs.js";
import { driftLines } from "../output/drift-text.js";
import { type PreparedTuning, tuneAgain, tuneOnSchedule } from "./tune-again.js";

const HOUR_MS = 3_600_000;
const FINDING = { bottleneck: "seats", because: "all are taken" } as const;

const tuningOf = (values: readonly number[]): Tuning => ({
  start: {},
  best: { "max-num-seqs": "4" },
  trials: [],
  first: FINDING,
  last: FINDING,
  evidence: {} as Tuning["evidence"],
  baseline: { values, ttftMs: 60, tpotMs: 12 },
  end: "",
});

function prepared(values: readonly number[], lines: string[] = [], cpu = "old"): PreparedTuning {
  return {
    objective: "throughput",
    settings: {},
    facts: () => ({ cpu }),
    run: async () => ({ tuning: tuningOf(values), print: (_, more) => lines.push(...more) }),
  };
}

test("a failure is tried again in an hour, and a kept run is followed by the next in a week", async () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const out = tempTree({});
  const stopping = new AbortController();
  const waits: number[] = [];
  const attempts = [
    () => {
      throw new MillraceError("peer_failed", "expected a quiet machine, got another");
    },
    () => prepared([100, 101, 99]),
  ];
  const scheduled = tuneOnSchedule(
    async () => attempts.shift()!(),
    { days: 7 },
    { out, maxDrift: 5 },
    stopping.signal,
    async (dueAt) => {
      waits.push(Math.round((dueAt() - Date.now()) / HOUR_MS));
      if (attempts.length === 0) stopping.abort();
      stopping.signal.throwIfAborted();
    },
  );
  await expect(scheduled).rejects.toThrow();
  expect(waits).toEqual([0, 1, 7 * 24]);
  expect(keptRuns(out)).toHaveLength(1);
  vi.restoreAllMocks();
});

test("the lines name the figures then and now, the verdict, the winner and what changed", async () => {
  const out = tempTree({});
  const lines: string[] = [];
  const { signal } = new AbortController();
  const first = await tuneAgain(prepared([9000, 9090, 8910], lines), { out, maxDrift: 5 }, signal);
  expect(lines.splice(0)).toEqual([`kept as ${first!.name}, the first run: the next one is compared with it`]);
  const second = await tuneAgain(prepared([800, 808, 792], lines, "new\u001b[2J"), { out, maxDrift: 5 }, signal);
  expect(second!.drift!.verdict).toBe("drifted");
  expect(lines).toEqual([
    `kept as ${second!.name}, compared with ${first!.name}:`,
    expect.stringMatching(
      /^first configuration: 9000 tokens\/s \(ttft 60 ms, tpot 12 ms\), now 800 tokens\/s .*: 0\.09 × \(0\.09 to 0\.09\) as good, drifted beyond ±5 %$/,
    ),
    "winner: the same, --max-num-seqs 4",
    "gain of the winner: none, now none",
    "bottleneck at first: seats, now seats (all are taken)",
    "changed: cpu: old, now new\\u001b[2J",
  ]);
  const unknown = driftLines(
    { ...second!, drift: { ...second!.drift!, baseline: { before: undefined, now: undefined } } },
    "ttft",
  );
  expect(unknown[1]).toMatch(/^first configuration: not known, now not known/);
});

test("a stopped run is not kept as a whole one", async () => {
  const out = tempTree({});
  const stopping = new AbortController();
  stopping.abort();
  expect(await tuneAgain(prepared([1]), { out, maxDrift: 5 }, stopping.signal)).toBeUndefined();
  expect(keptRuns(out)[0]!.figures).toBeUndefined();
});
