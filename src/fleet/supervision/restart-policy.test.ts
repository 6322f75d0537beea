/** Pauses double up to a bound and are spread; crash loops rest for minutes, rare crashes do not. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RestartPolicy } from "./restart-policy.js";
import { DEFAULT_TIMING } from "./timing.js";

const { maxCrashes, crashWindowMs, restartMs, maxRestartMs, giveUpMs } = DEFAULT_TIMING;

describe("a crashed instance", () => {
  it("is restarted after doubling pauses with jitter in their upper half", () => {
    const longest = new RestartPolicy(DEFAULT_TIMING, () => 0.999_999);
    const shortest = new RestartPolicy(DEFAULT_TIMING, () => 0);
    const delays = [longest, shortest].map((policy) =>
      [0, 1, 2, 3].map((time) => {
        const verdict = policy.crashed(time, true);
        return verdict.kind === "retry" ? Math.round(verdict.delayMs) : undefined;
      }),
    );
    expect(delays).toEqual([
      [500, 1000, 2000, 4000],
      [250, 500, 1000, 2000],
    ]);
  });

  it("is paused at its fifth crash within two minutes, but not at a fifth crash over a longer time", () => {
    const times = (spacingMs: number) => [0, 1, 2, 3, 4].map((index) => index * spacingMs);
    const verdicts = (spacingMs: number) => {
      const policy = new RestartPolicy(DEFAULT_TIMING);
      return times(spacingMs).map((timeMs) => policy.crashed(timeMs, true).kind);
    };
    expect(verdicts(1000)).toEqual(["retry", "retry", "retry", "retry", "pause"]);
    expect(verdicts(crashWindowMs / 4)).toEqual(Array(5).fill("retry"));
  });

  it("is paused if it never becomes ready, however slowly it fails", () => {
    const policy = new RestartPolicy(DEFAULT_TIMING, () => 1);
    const hour = 3_600_000;
    const verdicts = [0, 1, 2, 3, 4].map((index) => policy.crashed(index * hour, false));
    const reason = "was started 5 times without becoming ready";
    expect(verdicts.at(-1)).toEqual({ kind: "pause", delayMs: giveUpMs, reason });
  });

  it("gets single trials after a crash loop, each after twice the pause, until it stays up", () => {
    const policy = new RestartPolicy(DEFAULT_TIMING, () => 1);
    let nowMs = 0;
    for (let i = 1; i < maxCrashes; i++) expect(policy.crashed(nowMs++, true).kind).toBe("retry");
    const pauses: number[] = [];
    for (let loop = 0; loop < 6; loop++) {
      const verdict = policy.crashed(nowMs, true);
      if (verdict.kind !== "pause") throw new Error(`expected a pause, got ${verdict.kind}`);
      pauses.push(verdict.delayMs);
      nowMs += verdict.delayMs + 1000;
    }
    expect(pauses).toEqual([60_000, 120_000, 240_000, 480_000, 900_000, 900_000]);
    // The process ran for longer than a loop takes, so earlier loops no longer count.
    expect(policy.crashed(nowMs + crashWindowMs, true).kind).toBe("retry");
  });

  it("has no crash history after a requested start", () => {
    const policy = new RestartPolicy(DEFAULT_TIMING);
    for (let time = 0; time < maxCrashes; time++) policy.crashed(time, false);
    policy.forget();
    expect(policy.crashed(maxCrashes, false).kind).toBe("retry");
  });

  it("waits within the bounds; a crash loop begins exactly when the window or the number of failed starts is full", () => {
    const crash = fc.record({ afterMs: fc.integer({ min: 0, max: crashWindowMs }), wasReady: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(crash, { maxLength: 30 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (crashes, random) => {
          const policy = new RestartPolicy(DEFAULT_TIMING, () => random);
          let nowMs = 0;
          const times: number[] = [];
          let inVain = 0;
          for (const { afterMs, wasReady } of crashes) {
            nowMs += afterMs;
            times.push(nowMs);
            inVain = wasReady ? 0 : inVain + 1;
            const inWindow = times.filter((timeMs) => nowMs - timeMs < crashWindowMs).length;
            const verdict = policy.crashed(nowMs, wasReady);
            const isLoop = inWindow >= maxCrashes || inVain >= maxCrashes;
            expect(verdict.kind).toBe(isLoop ? "pause" : "retry");
            if (verdict.kind === "give_up") throw new Error("expected another start some time, got none");
            const [least, most] = isLoop ? [giveUpMs / 2, giveUpMs] : [restartMs / 2, maxRestartMs];
            expect(verdict.delayMs).toBeGreaterThanOrEqual(least);
            expect(verdict.delayMs).toBeLessThanOrEqual(most);
            if (isLoop) return;
          }
        },
      ),
    );
  });
});
