/** The turns in which layers are measured, computed for models too large for tests. */
import { expect, test } from "vitest";
import { bytesOfTurn, endOfTurn } from "./feedback-plan.js";

const GiB = 2 ** 30;

/** Bytes of each layer's Gram matrices: for the inputs of attention, of its output, and of both feed-forward parts. */
const layersOf = (numLayers: number, width: number, inner: number) =>
  Array.from({ length: numLayers }, () => [width, width, width, inner].map((cols) => 4 * cols ** 2));

function turnsOf(layers: ReturnType<typeof layersOf>) {
  const turns: { readonly end: number; readonly bytes: number }[] = [];
  for (let first = 0; first < layers.length; first = turns.at(-1)!.end) {
    const end = endOfTurn(layers, first);
    turns.push({ end, bytes: bytesOfTurn(layers.slice(first, end)) });
  }
  const passes = turns.reduce((sum, { end }) => sum + end, 0) / layers.length;
  return { passes, most: Math.max(...turns.map(({ bytes }) => bytes)) / GiB, ends: turns.map(({ end }) => end) };
}

test("an 8B stays below 3 GiB, two layers at a time", () => {
  const { passes, most, ends } = turnsOf(layersOf(32, 4096, 14_336));
  expect(ends).toEqual(Array.from({ length: 16 }, (_, i) => 2 * (i + 1)));
  expect(passes).toBe(8.5);
  expect(most).toBeCloseTo(2.67, 2);
});

test("a 70B takes one layer at a time, of 6.9 GiB with the copy of its widest matrix", () => {
  const { passes, most, ends } = turnsOf(layersOf(80, 8192, 28_672));
  expect([ends.length, passes]).toEqual([80, 40.5]);
  expect(most).toBeCloseTo(6.88, 2);
});

test("a 1.1B takes its short turn first, where few layers are computed", () => {
  const { passes, most, ends } = turnsOf(layersOf(22, 2048, 5632));
  expect(ends).toEqual([5, 22]);
  expect(passes).toBeCloseTo(27 / 22, 5);
  expect(most).toBeLessThan(3);
});

test("a run that goes on in the middle of a turn ends it where it would have ended", () => {
  const layers = layersOf(32, 4096, 14_336);
  expect([endOfTurn(layers, 0), endOfTurn(layers, 1), endOfTurn(layers, 31)]).toEqual([2, 2, 32]);
});
