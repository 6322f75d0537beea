import { describe, expect, it } from "vitest";
import { ServiceRate } from "./service-rate.js";

function clocked() {
  const clock = { ms: 5_000_000 };
  const rate = new ServiceRate(() => clock.ms);
  rate.countFirst();
  /** So many requests end, evenly spread over the time. */
  const serve = (count: number, seconds: number): void => {
    for (let i = 0; i < count; i++) {
      clock.ms += (1000 * seconds) / count;
      rate.countEnded();
    }
  };
  return { clock, rate, serve };
}

describe("the service rate", () => {
  it("tells how long a queue takes at the rate that was measured", () => {
    const { rate, serve } = clocked();
    serve(40, 10);
    expect(rate.secondsFor(100)).toBe(25);
    expect(rate.secondsFor(2)).toBe(1);
    expect(rate.secondsFor(10_000)).toBe(60);
  });

  it("looks at the last half minute only", () => {
    const { rate, serve } = clocked();
    serve(1000, 10);
    serve(30, 30);
    expect(rate.secondsFor(20)).toBe(20);
  });

  it("does not take a burst of ends for a rate", () => {
    const { clock, rate } = clocked();
    clock.ms += 8000;
    for (let i = 0; i < 4; i++) rate.countEnded();
    expect(rate.secondsFor(16)).toBe(32);
  });

  it("does not count a pause", () => {
    const { clock, rate, serve } = clocked();
    serve(10, 1);
    clock.ms += 20_000;
    rate.countFirst();
    serve(10, 5);
    expect(rate.secondsFor(20)).toBe(10);
  });

  it("without any end says as long again", () => {
    const { clock, rate } = clocked();
    expect(rate.secondsFor(100)).toBe(1);
    clock.ms += 12_000;
    expect(rate.secondsFor(100)).toBe(12);
    clock.ms += 500_000;
    expect(rate.secondsFor(1)).toBe(30);
  });

  it("keeps a bounded memory of the fastest servers", () => {
    const { rate, serve } = clocked();
    serve(100_000, 10);
    expect(rate.secondsFor(50_000)).toBe(5);
  });
});
