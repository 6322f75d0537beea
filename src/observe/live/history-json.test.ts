import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { EVERY_MS, History, WINDOW_NAMES } from "./history.js";
import { HistoryJson } from "./history-json.js";
import { readingOf } from "./load.js";

const START = Date.UTC(2026, 0, 1);
const EMPTY = readingOf([], START);
const fill = (history: History, fromMs: number, toMs: number) => {
  for (let atMs = fromMs; atMs <= toMs; atMs += EVERY_MS) history.add({ ...EMPTY, atMs, running: atMs % 7 });
};

test("figures are written once while they stay the same", () => {
  const history = new History();
  fill(history, START, START + 3_600_000);
  const read = vi.spyOn(history, "read");
  const json = new HistoryJson();
  const now = START + 3_600_000;
  const first = json.of(history, "week", now);
  expect(JSON.parse(first)).toHaveLength(4);
  expect(json.of(history, "week", now + 60_000)).toBe(first);
  expect(read).toHaveBeenCalledTimes(1);
  fill(history, now, now + 900_000);
  expect(JSON.parse(json.of(history, "week", now + 900_000))).toHaveLength(5);
});

test("is the same as a fresh text after any readings, for many histories in turn", () => {
  const step = fc.record({
    history: fc.nat({ max: 11 }),
    stepMs: fc.nat({ max: 400_000 }),
    window: fc.constantFrom(...WINDOW_NAMES),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      const histories = Array.from({ length: 12 }, () => new History());
      const json = new HistoryJson();
      let atMs = START;
      for (const { history: index, stepMs, window } of steps) {
        const history = histories[index]!;
        atMs += stepMs;
        history.add({ ...EMPTY, atMs, running: 1 });
        expect(json.of(history, window, atMs)).toBe(new HistoryJson().of(history, window, atMs));
        expect(JSON.parse(json.of(history, window, atMs))).toHaveLength(history.read(window, atMs).length);
      }
    }),
    { numRuns: 50 },
  );
});
