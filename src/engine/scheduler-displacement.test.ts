/** Which running sequences give their places to a waiting one, and what the step gets back for them. */
import { describe, expect, test } from "vitest";
import { createBench, WatchedPolicy } from "../../test/helpers/scheduler-bench.js";

describe("displacement", () => {
  test("takes as few as are needed, the last first", () => {
    const policy = new WatchedPolicy();
    const { arrive, running, step, waiting } = createBench({ numBlocks: 10 }, policy);
    for (const priority of [3, 4, 5]) arrive({ promptLength: 11, priority });
    step();
    arrive({ promptLength: 17, priority: 0 });
    step();
    expect([running(), waiting()]).toEqual([
      [1, 4],
      [3, 2],
    ]);
    const forLast = policy.asked.filter(({ victim }) => victim === 3);
    expect(forLast.every(({ running }) => running.length === 3)).toBe(true);
    expect(policy.asked.at(-1)).toEqual({ victim: 2, running: [1, 2], isSeatShort: false });
  });

  test("takes nobody where all that may be taken are not enough", () => {
    const { arrive, running, step, scheduler } = createBench({ numBlocks: 10, policy: "priority" });
    arrive({ promptLength: 23, priority: 0 });
    arrive({ promptLength: 7, priority: 5 });
    step();
    arrive({ promptLength: 20, priority: 1 });
    // Nor does a smaller one behind it come in.
    arrive({ promptLength: 4, priority: 2 });
    expect(step()).toEqual({ 1: 1, 2: 1 });
    expect([running(), scheduler.numPreemptions]).toEqual([[1, 2], 0]);
  });

  test("passes over those that may not be taken", () => {
    const policy = new WatchedPolicy();
    policy.mayDisplace = (waiting, victim) => waiting.id === 4 && victim.id === 2;
    const { arrive, running, step } = createBench({ numBlocks: 10 }, policy);
    for (let n = 0; n < 3; n++) arrive({ promptLength: 11 });
    step();
    arrive({ promptLength: 8 });
    step();
    expect(running()).toEqual([1, 3, 4]);
  });

  test("is asked for a seat where there is none, until one is taken", () => {
    const policy = new WatchedPolicy();
    const { arrive, running, step } = createBench({ maxNumSeqs: 2, numBlocks: 6 }, policy);
    arrive({ promptLength: 7, priority: 4 });
    arrive({ promptLength: 7, priority: 5 });
    step();
    arrive({ promptLength: 20, priority: 0 });
    step();
    expect(running()).toEqual([3]);
    const first = policy.asked.find(({ victim }) => victim === 2);
    expect([first, policy.asked.at(-1)]).toEqual([
      { victim: 2, running: [1, 2], isSeatShort: true },
      { victim: 1, running: [1], isSeatShort: false },
    ]);
  });

  test("is not tried where the step's tokens are spent", () => {
    const { arrive, scheduler, step } = createBench({ maxNumSeqs: 2, maxNumBatchedTokens: 2, policy: "priority" });
    for (let n = 0; n < 2; n++) arrive({ promptLength: 1, priority: 5 });
    step();
    arrive({ promptLength: 1, priority: 0 });
    expect([step(), scheduler.numPreemptions]).toEqual([{ 1: 1, 2: 1 }, 0]);
  });

  test("needs no room for what is cached", () => {
    const options = {
      numBlocks: 10,
      maxNumBatchedTokens: 64,
      policy: "priority",
      isPrefixCachingEnabled: true,
    } as const;
    const { arrive, running, step } = createBench(options);
    arrive({ promptLength: 20, priority: 0 });
    arrive({ promptLength: 15, priority: 5, token: 8 });
    step();
    arrive({ promptLength: 27, priority: 1 });
    step();
    expect(running()).toEqual([1, 3]);
  });

  test("of a prompt that this step has not come to gives no tokens back", () => {
    const { arrive, step } = createBench({ maxNumSeqs: 1, maxNumBatchedTokens: 10, policy: "priority" });
    arrive({ promptLength: 30, priority: 5 });
    step();
    arrive({ promptLength: 30, priority: 0 });
    expect(step()).toEqual({ 2: 10 });
  });
});

describe("a victim's share of the step", () => {
  test("the tokens of its drafts are the newcomer's", () => {
    const { arrive, step } = createBench({ maxNumSeqs: 1, maxNumBatchedTokens: 10, policy: "priority" });
    arrive({ promptLength: 4, priority: 5 });
    step();
    arrive({ promptLength: 10, priority: 0 });
    expect(step([3])).toEqual({ 2: 10 });
  });

  test("the logit rows of its drafts are the newcomer's", () => {
    const { arrive, step } = createBench({ maxNumSeqs: 1, maxExtraLogitRows: 4, policy: "priority" });
    arrive({ promptLength: 4, priority: 5 });
    step();
    arrive({ promptLength: 10, priority: 0, isScored: true });
    expect(step([3])).toEqual({ 2: 4 });
  });
});

test("a sequence is pre-empted only for one that the step can compute", () => {
  const whole = createBench({
    maxNumSeqs: 2,
    maxNumBatchedTokens: 10,
    isChunkedPrefillEnabled: false,
    policy: "priority",
  });
  whole.arrive({ promptLength: 1, priority: 0 });
  whole.arrive({ promptLength: 1, priority: 5 });
  whole.step();
  whole.arrive({ promptLength: 10, priority: 1 });
  for (let i = 0; i < 4; i++) whole.step();
  expect([whole.scheduler.numPreemptions, whole.running().length]).toEqual([0, 2]);

  const scored = createBench({ maxNumSeqs: 2, maxExtraLogitRows: 4, policy: "priority" });
  scored.arrive({ promptLength: 40, priority: 0, isScored: true });
  scored.arrive({ promptLength: 1, priority: 5 });
  scored.step();
  scored.arrive({ promptLength: 10, priority: 1, isScored: true });
  for (let i = 0; i < 4; i++) scored.step();
  expect([scored.scheduler.numPreemptions, scored.running().length]).toEqual([0, 2]);
});
