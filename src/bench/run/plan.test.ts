import { expect, test } from "vitest";
import { longestRequest } from "../workload/workload.js";
import { notesOn, type PlanWishes, planFor } from "./plan.js";

const plan = (wishes: Partial<PlanWishes>) =>
  planFor({ scenario: "quick", isReplay: false, scale: 1, seed: 0, ...wishes });
const names = (wishes: Partial<PlanWishes>) => plan(wishes).cells.map((cell) => cell.name);

test("the standard matrix is three shapes by seven concurrencies, in exact lengths", () => {
  const { cells, plan: saved } = plan({ scenario: "standard" });
  expect(cells).toHaveLength(21);
  expect(cells[0]).toMatchObject({ name: "512/512, 1 at once", numSessions: 10, durationMs: undefined });
  expect(cells.at(-1)).toMatchObject({ name: "2048/1024, 64 at once", numSessions: 256 });
  expect(longestRequest(cells.at(-1)!.workload)).toBe(3072);
  expect(saved).toMatchObject({ scenario: "standard", rounds: 5, stopsWhenSaturated: false });
  expect(new Set(saved.cells.map((cell) => cell.name)).size).toBe(21);
});

test("the user's loads and limits replace the scenario's", () => {
  expect(names({ concurrency: [2, 6] })).toEqual(["128/64, 2 at once", "128/64, 6 at once"]);
  expect(names({ ratesPerS: [2, 0.5], burstiness: 1 })).toEqual(["128/64, 2/s Poisson", "128/64, 0.5/s Poisson"]);
  expect(names({ ratesPerS: [3] })).toEqual(["128/64, 3/s evenly"]);
  expect(plan({ ratesPerS: [3] }).cells[0]).toMatchObject({ numSessions: undefined, durationMs: 12_000 });
  expect(plan({ numRequests: 7 }).cells[0]).toMatchObject({ numSessions: 7, durationMs: undefined });
  expect(plan({ durationS: 3 }).cells[2]).toMatchObject({ numSessions: undefined, durationMs: 3000 });
  expect(plan({ scenario: "chat", numRequests: 10 }).cells[0]!.numSessions).toBe(3);
  const sweep = plan({ concurrency: "sweep" });
  expect(sweep.plan.stopsWhenSaturated).toBe(true);
  expect(sweep.cells.slice(0, 4).map((cell) => cell.name)).toEqual([1, 2, 4, 8].map((n) => `128/64, ${n} at once`));
});

test("scaling changes only lengths", () => {
  const { workload } = plan({ scenario: "rag", scale: 0.5 }).cells[0]!;
  expect(workload).toEqual({ kind: "documents", numDocuments: 8, documentTokens: 750, outputTokens: 64 });
});

test("the user's prompts are saved as a count and a hash, and replayed only with times", () => {
  const entries = [
    { prompt: "a secret", outputTokens: 4, atMs: 0 },
    { prompt: "b", outputTokens: 4, atMs: 30 },
  ];
  const { cells, plan: saved } = plan({ entries, isReplay: true });
  expect(cells[0]).toMatchObject({
    name: "prompts, as traced",
    load: { kind: "replay", atMs: [0, 30] },
    numSessions: 2,
  });
  expect(saved.cells[0]).toMatchObject({ load: { kind: "replay", numArrivals: 2 }, workload: { numEntries: 2 } });
  expect(JSON.stringify(saved)).not.toContain("secret");
  expect(JSON.stringify(plan({ entries: entries.slice(1), isReplay: true }).plan)).not.toBe(JSON.stringify(saved));
  const timeless = [{ prompt: "a", outputTokens: 4 }];
  expect(names({ entries: timeless })[0]).toBe("prompts, 1 at once");
  const notes = (wishes: Partial<PlanWishes>) => notesOn(plan({ entries: timeless, ...wishes }).cells, 1);
  expect(notes({ concurrency: [1] })).toEqual([]);
  expect(notes({ numRequests: 2 })).toEqual([expect.stringMatching(/same/), expect.stringMatching(/repeat prompts/)]);
  expect(notes({ concurrency: [1], durationS: 9 })).toEqual([expect.stringMatching(/repeat prompts/)]);
  expect(() => plan({ entries: timeless, isReplay: true })).toThrow(/timestamp on every line/);
});

test("an unknown scenario is refused, with the list of scenarios", () => {
  expect(() => plan({ scenario: "slow" })).toThrow(/code-edit: .*\n.*got "slow"/s);
});
