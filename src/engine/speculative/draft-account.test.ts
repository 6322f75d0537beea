import fc from "fast-check";
import { expect, test } from "vitest";
import { DraftAccount } from "./draft-account.js";

test("what only costs is tried on one step in so many that it takes a hundredth of the time", () => {
  const account = new DraftAccount();
  let numTries = 0;
  for (let step = 0; step < 10_000; step++) {
    if (!account.open(10)) continue;
    numTries++;
    account.add(-1);
  }
  expect(numTries).toBeGreaterThan(950);
  expect(numTries).toBeLessThan(1050);
});

test("what pays is done in every step", () => {
  const account = new DraftAccount();
  for (let step = 0; step < 100; step++) {
    expect(account.open(10)).toBe(true);
    account.add(-1);
    account.add(1.5);
  }
});

test("a single draft that fails does not end drafting where drafts win", () => {
  const account = new DraftAccount();
  const opened = Array.from({ length: 400 }, (_, step) => {
    if (!account.open(10)) return false;
    // Every tenth draft is long and fails; the others save three steps each.
    account.add(step % 10 === 9 ? -70 : 30);
    return true;
  });
  expect(opened.every((isOpen) => isOpen)).toBe(true);
});

test("whatever is won and lost, losses stay within the allowance, eight steps of what was won and the last try", () => {
  const attempt = fc.record({
    cost: fc.double({ min: 0, max: 5, noNaN: true }),
    gain: fc.double({ min: 0, max: 5, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.array(attempt, { maxLength: 300 }), (attempts) => {
      const account = new DraftAccount();
      let netMs = 0;
      let allowedMs = 0;
      let bestMs = 0;
      for (const { cost, gain } of attempts) {
        allowedMs += 0.1;
        if (!account.open(10)) continue;
        account.add(-cost);
        account.add(gain);
        netMs += gain - cost;
        bestMs = Math.max(bestMs, netMs + allowedMs);
        // Since its best moment it has lost at most what it may keep of its winnings.
        expect(bestMs - (netMs + allowedMs)).toBeLessThanOrEqual(80 + 5 + 1e-6);
      }
    }),
  );
});
