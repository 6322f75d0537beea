import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import type { AttemptRecord } from "../usage/record.js";
import { HardwareMeter } from "./hardware-meter.js";
import { amountsText, costOf } from "./price.js";

const NANO_PER_HOUR = 1_200_000_000n;

interface Job {
  readonly attempt: AttemptRecord;
  readonly promptTokens: number;
  readonly outputTokens: number;
  leftPrompt: number;
  leftOutput: number;
}

/**
 * An instance that works on its jobs in turns: a turn takes 0.2 ms for each token of a prompt, 4 ms for each of an
 * answer.
 */
function simulate(hours: number, load: number, isStreamed: boolean, start: number) {
  const rng = new TestRng(start);
  const random = () => rng.next();
  let now = 0;
  const meter = new HardwareMeter(() => now);
  let jobs: Job[] = [];
  let charged = 0n;
  let busyMs = 0;
  let number = 0;
  const sums = { prompt: 0, output: 0 };
  while (now < hours * 3_600_000) {
    if (jobs.length < load) {
      const attempt = { instance: "i", engine: "vllm", model: "m", startMs: now, number: number++ } as AttemptRecord;
      const job = {
        attempt,
        promptTokens: 50 + Math.floor(random() * 4000),
        outputTokens: 5 + Math.floor(random() * 400),
      };
      jobs.push({ ...job, leftPrompt: job.promptTokens, leftOutput: job.outputTokens });
      meter.began(attempt);
    }
    for (const job of jobs) {
      const ms = job.leftPrompt > 0 ? Math.min(job.leftPrompt, 512) * 0.2 : 4;
      now += ms;
      busyMs += ms;
      if (job.leftPrompt > 0) {
        job.leftPrompt = Math.max(0, job.leftPrompt - 512);
        if (job.leftPrompt === 0 && isStreamed) meter.answering(job.attempt);
      } else job.leftOutput--;
      if (job.leftOutput > 0) continue;
      if (!isStreamed) meter.answering(job.attempt);
      const counts = { fresh: job.promptTokens, cacheRead: 0, cacheWrite: 0, output: job.outputTokens, reasoning: 0 };
      job.attempt.usage = counts;
      charged += costOf(counts, meter.priceOf("m", NANO_PER_HOUR));
      sums.prompt += job.promptTokens;
      sums.output += job.outputTokens;
      meter.ended(job.attempt);
    }
    jobs = jobs.filter(({ leftOutput }) => leftOutput > 0);
    // Idle at times, at no cost.
    if (jobs.length === 0 && random() < 0.3) now += 30_000;
  }
  return {
    charged: Number(charged),
    busy: (Number(NANO_PER_HOUR) * busyMs) / 3_600_000,
    price: meter.priceOf("m", NANO_PER_HOUR),
  };
}

test.each([
  [1, true],
  [8, true],
  [32, true],
  [8, false],
])("%s requests at once, streamed: %s: together they cost the busy time", (load, isStreamed) => {
  const { charged, busy } = simulate(4, load, isStreamed, load);
  expect(charged / busy).toBeGreaterThan(0.95);
  expect(charged / busy).toBeLessThan(1.05);
});

test("alone on an instance, a request costs its own time: tokens of answers what they take, and of prompts too", () => {
  const { price } = simulate(4, 1, true, 3);
  const perMillion = (ms: number) => (Number(NANO_PER_HOUR) * 1e6 * ms) / 3_600_000;
  expect(Number(price.fresh) / perMillion(0.2)).toBeCloseTo(1, 1);
  expect(Number(price.output) / perMillion(4)).toBeCloseTo(1, 1);
});

test("a price holds for a minute, says what it is, and follows the price of the hour at once", () => {
  let now = 0;
  const meter = new HardwareMeter(() => now);
  const first = meter.priceOf("m", NANO_PER_HOUR);
  now += 59_000;
  expect(meter.priceOf("m", NANO_PER_HOUR)).toBe(first);
  expect(first.version).toBe(`hardware at $1.2/h: ${amountsText(first)}`);
  expect(Number(meter.priceOf("m", 2n * NANO_PER_HOUR).fresh) / Number(first.fresh)).toBeCloseTo(2, 6);
});
