import fc from "fast-check";
import { expect, test } from "vitest";
import { KeyLimits } from "./key-limits.js";

test("a key that nothing is known of is open, and so is one whose limits are whole again", () => {
  const key = new KeyLimits();
  expect(key.opensAtMs(1e9, 0)).toBe(0);
  const sent = key.send(10);
  key.learn({ requests: { remaining: 0, resetMs: 500 } }, sent, false, 1000);
  expect(key.opensAtMs(1, 1499)).toBe(1500);
  expect(key.opensAtMs(1, 1500)).toBeLessThanOrEqual(1500);
});

test("requests that were sent after the one that was answered are taken off what is left", () => {
  const key = new KeyLimits();
  const first = key.send(100);
  key.send(100);
  key.send(100);
  key.learn(
    { requests: { remaining: 3, resetMs: 60_000 }, tokens: { remaining: 350, resetMs: 30_000 } },
    first,
    false,
    0,
  );
  expect(key.opensAtMs(150, 1)).toBe(0);
  expect(key.opensAtMs(151, 1)).toBe(30_000);
  key.send(1);
  expect(key.opensAtMs(1, 1)).toBe(60_000);
});

test("a refusal without a time pauses for longer each time, until an answer", () => {
  const key = new KeyLimits();
  const pauses: number[] = [];
  let now = 0;
  for (let i = 0; i < 9; i++) {
    key.learn({}, key.send(1), true, now);
    pauses.push(key.opensAtMs(1, now) - now);
    now = key.opensAtMs(1, now);
  }
  expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  key.learn({}, key.send(1), false, now);
  key.learn({}, key.send(1), true, now);
  expect(key.opensAtMs(1, now) - now).toBe(1000);
});

test("a provider that counts as it says is never asked for more than it has left", () => {
  const step = fc.record({ tokens: fc.integer({ min: 1, max: 100 }), isAnswered: fc.boolean(), waitMs: fc.nat(50) });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 60 }),
      fc.integer({ min: 1, max: 10 }),
      fc.integer({ min: 100, max: 500 }),
      (steps, perWindow, tokensPerWindow) => {
        const key = new KeyLimits();
        let [now, windowEnd, requestsLeft, tokensLeft] = [0, 1000, perWindow, tokensPerWindow];
        const open: (() => void)[] = [];
        let isKnown = false;
        for (const { tokens, isAnswered, waitMs } of steps) {
          now += waitMs;
          if (now >= windowEnd) {
            [windowEnd, requestsLeft, tokensLeft, isKnown] = [now + 1000, perWindow, tokensPerWindow, false];
          }
          if (key.opensAtMs(tokens, now) <= now) {
            // Before its first answer in a window, a key is trusted.
            if (isKnown) expect([requestsLeft > 0, tokensLeft >= tokens]).toEqual([true, true]);
            requestsLeft--;
            tokensLeft -= tokens;
            const sent = key.send(tokens);
            const [requests, left, resetMs] = [Math.max(0, requestsLeft), Math.max(0, tokensLeft), windowEnd - now];
            const answeredMs = now;
            open.push(() => {
              // An answer from an earlier window would describe that window.
              if (answeredMs < windowEnd - 1000) return;
              key.learn(
                { requests: { remaining: requests, resetMs }, tokens: { remaining: left, resetMs } },
                sent,
                false,
                now,
              );
              isKnown = true;
            });
          }
          if (isAnswered) open.shift()?.();
        }
      },
    ),
  );
});
