import { expect, test } from "vitest";
import { BINDING_NAMES, type Binding, bindingOf } from "./binding.js";
import { type Load, loadBetween, readingOf } from "./load.js";

/** A server that computes answers, with room for more requests. */
const DECODING: Load = {
  ...loadBetween(readingOf([], 0), readingOf([], 1000)),
  running: 2,
  waiting: 0,
  seats: 8,
  kvUse: 0.2,
  tokensInPerS: 50,
  tokensOutPerS: 100,
  promptShare: 0.1,
  hostShare: 0.1,
};
const IDLE: Partial<Load> = { running: 0, tokensOutPerS: 0 };

const CASES: readonly (readonly [Binding["name"], Partial<Load>, evidence: string])[] = [
  ["memory", { preemptionsPerS: 1.5 }, "num_preemptions_total grows by 1.5 a second"],
  ["memory", { waiting: 3, kvUse: 0.99 }, "kv_cache_usage_perc is 99 %, and num_requests_waiting is 3"],
  // More seats would not help: requests would still lack memory.
  ["memory", { waiting: 3, kvUse: 0.99, running: 8 }, "kv_cache_usage_perc is 99 %, and num_requests_waiting is 3"],
  [
    "memory",
    { waiting: 1, kvUse: 0.7, running: 3 },
    "kv_cache_usage_perc is 70 % with 3 running, which leaves no room for the next, and num_requests_waiting is 1",
  ],
  ["seats", { waiting: 3, running: 8 }, "num_requests_waiting is 3, with 8 of 8 seats taken"],
  ["seats", { waiting: 1, running: 1, seats: 1, kvUse: 0.6 }, "num_requests_waiting is 1, with 1 of 1 seats taken"],
  ["queue", { waiting: 3 }, "num_requests_waiting is 3 with 2 of 8 seats taken; kv_cache_usage_perc is 20 %"],
  // A model that is loading.
  [
    "queue",
    { ...IDLE, waiting: 2, seats: undefined, kvUse: undefined },
    "num_requests_waiting is 2 with an unknown number of seats taken",
  ],
  ["host", { hostShare: 0.55 }, "the kernels compute in 45 % of the steps' time (engine_kernel_seconds_total)"],
  ["host", { hostShare: 0.55, promptShare: 0.9 }, "the kernels compute in 45 % of the steps' time (engine_kernel_"],
  ["prefill", { promptShare: 0.71 }, "71 % of the steps' time is for prompts (engine_prompt_seconds_total)"],
  [
    "decode",
    {},
    "90 % of the steps' time is for answers (engine_prompt_seconds_total): 100 tokens of answers a second",
  ],
  // Regardless of the prompts' tokens: cached ones take no time.
  ["decode", { tokensInPerS: 50_000 }, "90 % of the steps' time is for answers"],
  [
    "steps",
    { promptShare: undefined, hostShare: undefined },
    "2 requests are computed, 100 tokens of answers a second, none held up",
  ],
  ["nothing", IDLE, "num_requests_running is 0"],
];

test.each(CASES)("names %s by %o", (name, change, evidence) => {
  const binding = bindingOf({ ...DECODING, ...change });
  expect(binding).toMatchObject({ name, evidence: expect.stringContaining(evidence) });
  expect(binding.advice === "").toBe(name === "nothing");
});

test("every cause has a case", () => {
  expect(new Set(CASES.map(([name]) => name))).toEqual(new Set(BINDING_NAMES));
});

test("a request that has just come is no queue", () => {
  expect(bindingOf({ ...DECODING, waiting: 1 }, 0).name).toBe("decode");
  expect(bindingOf({ ...DECODING, waiting: 1, running: 8 }, 0).name).toBe("seats");
});
