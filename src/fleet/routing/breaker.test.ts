import fc from "fast-check";
import { expect, test } from "vitest";
import { type Breaker, CLOSED, mayTry, onFailure, onFirstByte, onNothingLearnt, onSuccess, onTry } from "./breaker.js";

const failed = (times: number, nowMs: number, from: Breaker = CLOSED): Breaker => {
  let breaker = from;
  for (let i = 0; i < times; i++) breaker = onFailure(breaker, nowMs);
  return breaker;
};

test("three consecutive failures open the breaker, fewer do not", () => {
  expect(mayTry(failed(2, 0), 0)).toBe(true);
  expect(mayTry(failed(3, 0), 0)).toBe(false);
  expect(mayTry(onFailure(onSuccess(), 0), 0)).toBe(true);
});

test("after a second the breaker lets one request through, and its success closes the breaker", () => {
  const open = failed(3, 0);
  expect(mayTry(open, 999)).toBe(false);
  expect(mayTry(open, 1000)).toBe(true);
  const probing = onTry(open);
  expect(mayTry(probing, 5000)).toBe(false);
  expect(onSuccess()).toBe(CLOSED);
});

test("a failed probe doubles the pause, up to thirty seconds", () => {
  let breaker = failed(3, 0);
  const pauses: number[] = [];
  for (let i = 0; i < 8; i++) {
    const nowMs = breaker.retryAtMs;
    breaker = onFailure(onTry(breaker), nowMs);
    pauses.push(breaker.retryAtMs - nowMs);
  }
  expect(pauses).toEqual([2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000]);
});

test("a probe whose client leaves is replaced by the next request at once", () => {
  const probing = onTry(failed(3, 0));
  expect(mayTry(onNothingLearnt(probing), 1000)).toBe(true);
});

test("requests that were running when the breaker opened do not lengthen the pause", () => {
  const open = failed(3, 0);
  expect(onFailure(open, 500)).toBe(open);
});

test("after any events, time alone lets a request through again, unless a probe is running", () => {
  const event = fc.constantFrom("try", "success", "failure", "nothing");
  fc.assert(
    fc.property(fc.array(fc.tuple(event, fc.nat(5000)), { maxLength: 60 }), (events) => {
      let breaker: Breaker = CLOSED;
      let nowMs = 0;
      for (const [what, passedMs] of events) {
        nowMs += passedMs;
        if (what === "try" && mayTry(breaker, nowMs)) breaker = onTry(breaker);
        else if (what === "success") breaker = onSuccess();
        else if (what === "failure") breaker = onFailure(breaker, nowMs);
        else if (what === "nothing") breaker = onNothingLearnt(breaker);
        expect(mayTry(breaker, nowMs + 30_000)).toBe(breaker.state !== "half-open");
      }
    }),
  );
});

test("only failures change a closed breaker, and only time or success an open one", () => {
  const doubted = failed(2, 0);
  const open = failed(3, 0);
  expect([onTry(doubted), onFirstByte(doubted), onNothingLearnt(doubted)]).toEqual([doubted, doubted, doubted]);
  expect([onFirstByte(open), onNothingLearnt(open)]).toEqual([open, open]);
});

test("a probe whose answer has begun lets others through, until its first failure", () => {
  const trusted = onFirstByte(onTry(failed(3, 0)));
  expect(mayTry(trusted, 0)).toBe(true);
  const reopened = onFailure(trusted, 10_000);
  expect(mayTry(reopened, 11_999)).toBe(false);
  expect(mayTry(reopened, 12_000)).toBe(true);
});
