/** An interrupted tuning measures nothing twice, and resumes only with the same settings. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../../engine/api/speculative-config.js";
import { SpeculationJournal } from "./journal.js";

const SETTINGS = { model: "abc", depths: [2, 4], threads: undefined };
const candidate = (name: string) => ({ name, config: DEFAULT_SPECULATIVE_CONFIG });
const MEASURED = {
  cells: [{ ratios: [1.1, 1.2], numDraftTokens: 3, numAcceptedTokens: 2, numTokens: 9, numSteps: 7 }],
};
const ANSWERS = [{ name: "chat", because: "none of these", decodingMs: 2.5 }];

test("answers and measurements are taken from the journal; another look is measured", async () => {
  const out = tempTree({});
  const first = new SpeculationJournal(out, SETTINGS, false);
  const measure = vi.fn(async () => MEASURED);
  const make = vi.fn(async () => ANSWERS);
  await first.answers(make);
  await first.recorded({ measure }).measure(candidate("a"), 3, "first");
  const again = new SpeculationJournal(out, SETTINGS, true);
  expect(await again.answers(make)).toEqual(ANSWERS);
  expect(await again.recorded({ measure }).measure(candidate("a"), 3, "first")).toEqual(MEASURED);
  expect([make, measure].map(({ mock }) => mock.calls.length)).toEqual([1, 1]);
  await again.recorded({ measure }).measure(candidate("a"), 5, "closer");
  await again.recorded({ measure }).measure(candidate("b"), 3, "first");
  expect(measure).toHaveBeenCalledTimes(3);
});

test("another tuning's journal, a damaged one and none are refused; a new tuning keeps the old journal", async () => {
  const out = tempTree({});
  expect(() => new SpeculationJournal(out, SETTINGS, true)).toThrow(/expected the journal of a tuning to resume/);
  new SpeculationJournal(out, SETTINGS, false);
  expect(() => new SpeculationJournal(out, { ...SETTINGS, depths: [8] }, true)).toThrow(/got others/);
  new SpeculationJournal(out, SETTINGS, false);
  expect(readdirSync(out).filter((name) => /^speculation(-.*Z)?\.json$/.test(name))).toHaveLength(2);
  const zero = { cells: [{ ...MEASURED.cells[0], ratios: [0] }] };
  const bad = [{ candidate: "a", look: "first", measured: zero }];
  const frame = { format: "millrace-tune-speculation", version: 1, settings: SETTINGS };
  for (const text of ["{", "[]", JSON.stringify({ ...frame, measured: bad })]) {
    writeFileSync(join(out, "speculation.json"), text);
    expect(() => new SpeculationJournal(out, SETTINGS, true)).toThrow(/got something else/);
  }
});
