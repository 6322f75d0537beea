import { expect, test } from "vitest";
import { AnswerOrder } from "./load.js";

test("an answer that comes after one that was asked for later is not shown", () => {
  const order = new AnswerOrder();
  const [first, second, third] = [order.ask(), order.ask(), order.ask()];
  expect([second(), first(), third()]).toEqual([true, false, true]);
});

test("answers that each take longer than the time between two loads are shown", () => {
  const order = new AnswerOrder();
  const first = order.ask();
  const second = order.ask();
  expect(first()).toBe(true);
  const third = order.ask();
  expect([second(), third()]).toEqual([true, true]);
});

test("what was asked for under another choice is not shown, though nothing has come yet", () => {
  const order = new AnswerOrder();
  const ofYear = order.ask();
  order.forget();
  const ofDay = order.ask();
  expect([ofYear(), ofDay()]).toEqual([false, true]);
});
