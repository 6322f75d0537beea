import { expect, test } from "vitest";
import { StepCost } from "./step/step-cost.js";
import { StepPace } from "./step-pace.js";

const cost = () => new StepCost((rows) => 20 + rows, 32);

test("takes as many prompt tokens as the step's time allows, and always a few", () => {
  // Four decoding rows take 24 ms; each prompt token one more.
  expect(new StepPace(cost(), 40).promptTokensBeside(4, 1000)).toBe(16);
  expect(new StepPace(cost(), 40).promptTokensBeside(4, 9)).toBe(9);
  expect(new StepPace(cost(), 1).promptTokensBeside(4, 1000)).toBe(4);
  expect(new StepPace(cost(), 1).promptTokensBeside(4, 2)).toBe(2);
});

test("auto allows a multiple of what decoding alone takes", () => {
  const few = new StepPace(cost(), "auto").promptTokensBeside(1, 1000);
  const many = new StepPace(cost(), "auto").promptTokensBeside(16, 1000);
  expect(few).toBeGreaterThan(10);
  expect(many).toBeGreaterThan(few);
});

test("learns how slow prompt tokens are behind a long past", () => {
  const pace = new StepPace(cost(), 40);
  for (let i = 0; i < 100; i++) pace.observe(4, 10, 24 + 20);
  expect(pace.promptTokensBeside(4, 1000)).toBe(8);
});
