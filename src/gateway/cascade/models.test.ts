import fc from "fast-check";
import { expect, test } from "vitest";
import { uniform } from "../../core/random.js";
import { calibrated, fitIsotonic } from "./isotonic.js";
import { fitLogistic, logisticScore } from "./logistic.js";

test("logistic regression finds the weights that made the labels", () => {
  const random = uniform(1);
  const rows = Array.from({ length: 20_000 }, () => [random() * 2 - 1, random() * 2 - 1, random() * 2 - 1]);
  const labels = rows.map(([a, b]) => Number(random() < 1 / (1 + Math.exp(-(2 * a! - b! + 0.5)))));
  const fitted = fitLogistic(rows, labels, 1);
  const weights = fitted.weights.map((weight, i) => weight / fitted.scales[i]!);
  expect(weights[0]).toBeCloseTo(2, 0);
  expect(weights[1]).toBeCloseTo(-1, 0);
  expect(Math.abs(weights[2]!)).toBeLessThan(0.15);
  expect(logisticScore(fitted, [0, 0, 0])).toBeCloseTo(1 / (1 + Math.exp(-0.5)), 1);
});

test("separable labels and constant features stay finite", () => {
  const fitted = fitLogistic(
    [
      [0, 7],
      [1, 7],
      [2, 7],
      [3, 7],
    ],
    [0, 0, 1, 1],
    1,
  );
  expect([...fitted.weights, fitted.bias].every(Number.isFinite)).toBe(true);
  expect(fitted.weights[1]).toBeCloseTo(0);
});

test("calibrated probabilities rise with the score, and stay inside 0 and 1", () => {
  const example = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 1 }));
  fc.assert(
    fc.property(fc.array(example, { minLength: 1, maxLength: 200 }), (examples) => {
      const isotonic = fitIsotonic(
        examples.map(([score]) => score),
        examples.map(([, label]) => label),
      );
      const probabilities = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1].map((score) => calibrated(isotonic, score));
      expect([...probabilities].sort((a, b) => a - b)).toEqual(probabilities);
      for (const each of probabilities) {
        expect(each).toBeGreaterThan(0);
        expect(each).toBeLessThan(1);
      }
    }),
  );
});

test("calibration maps a skewed score to the rates it stands for", () => {
  const random = uniform(2);
  const scores = Array.from({ length: 20_000 }, () => random());
  const labels = scores.map((score) => Number(random() < score ** 3));
  const isotonic = fitIsotonic(scores, labels);
  for (const score of [0.2, 0.5, 0.8]) expect(Math.abs(calibrated(isotonic, score) - score ** 3)).toBeLessThan(0.04);
});
