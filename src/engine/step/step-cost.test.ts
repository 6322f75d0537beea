import { expect, test } from "vitest";
import { StepCost } from "./step-cost.js";

test("is straight between measured rows, goes on beyond them, and never falls", () => {
  const cost = new StepCost((rows) => (rows === 4 ? 100 : 10 + rows), 32);
  expect(cost.ms(1)).toBe(11);
  expect(cost.ms(3)).toBeCloseTo((12 + 18) / 2);
  expect(cost.ms(24)).toBeCloseTo(34);
  expect(cost.ms(48)).toBeCloseTo(58);
  for (let rows = 1; rows < 64; rows++) expect(cost.ms(rows + 1)).toBeGreaterThanOrEqual(cost.ms(rows));
});

test("follows what steps really take, and hardly minds one that was held up", () => {
  const cost = new StepCost((rows) => 10 + rows, 32);
  for (let i = 0; i < 200; i++) cost.observe(1, 22);
  expect(cost.ms(1)).toBeCloseTo(22, 0);
  const before = cost.ms(8);
  cost.observe(8, 10_000);
  expect(cost.ms(8)).toBeLessThan(1.03 * before);
  // Where one step in ten takes four times as long, what the others take counts.
  for (let i = 0; i < 500; i++) cost.observe(8, i % 10 === 0 ? 80 : 20);
  expect(cost.ms(8)).toBeLessThan(1.25 * 20);
});

test("a batch that can hold one row has a cost too", () => {
  const cost = new StepCost(() => 5, 1);
  expect(cost.ms(1)).toBe(5);
  cost.observe(1, 6);
  expect(cost.ms(1)).toBeGreaterThan(5);
});
