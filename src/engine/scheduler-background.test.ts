/** Background sequences: computed where nothing else is, and without a claim to seats or memory. The properties are in scheduler.test.ts. */
import { describe, expect, test } from "vitest";
import { createBench } from "../../test/helpers/scheduler-bench.js";

const background = { isBackground: true };

describe("background sequences", () => {
  test("stand still while another sequence is there, and go on where they were", () => {
    const { arrive, step, scheduler } = createBench();
    arrive({ promptLength: 4, ...background });
    expect(step()).toEqual({ 1: 4 });
    expect(step()).toEqual({ 1: 1 });
    const other = arrive({ promptLength: 9 });
    arrive({ promptLength: 5, ...background });
    expect(step()).toEqual({ 2: 9 });
    expect(step()).toEqual({ 2: 1 });
    scheduler.remove(other);
    expect(step()).toEqual({ 1: 1, 3: 5 });
    expect(scheduler.numPreemptions).toBe(0);
  });

  test("have short steps", () => {
    const { arrive, step } = createBench({ maxNumBatchedTokens: 100 });
    arrive({ promptLength: 50, ...background });
    expect([step(), step(), step()]).toEqual([{ 1: 32 }, { 1: 18 }, { 1: 1 }]);
    arrive({ promptLength: 50 });
    expect(step()).toEqual({ 2: 50 });
  });

  test("give their seats and their memory to others, whatever the policy", () => {
    const seats = createBench({ maxNumSeqs: 1 });
    seats.arrive({ promptLength: 4, ...background });
    seats.step();
    seats.arrive({ promptLength: 4 });
    expect(seats.step()).toEqual({ 2: 4 });
    expect([seats.running(), seats.waiting()]).toEqual([[2], [1]]);
    const memory = createBench({ numBlocks: 6 });
    memory.arrive({ promptLength: 15, ...background });
    memory.step();
    memory.arrive({ promptLength: 15 });
    expect(memory.step()).toEqual({ 2: 15 });
    expect([memory.running(), memory.waiting()]).toEqual([[2], [1]]);
  });

  test("take nothing from others, however urgent they are", () => {
    const { arrive, step, running, waiting } = createBench({ maxNumSeqs: 1, policy: "priority" });
    arrive({ promptLength: 4, priority: 5 });
    step();
    arrive({ promptLength: 4, priority: 0, ...background });
    expect(step()).toEqual({ 1: 1 });
    expect([running(), waiting()]).toEqual([[1], [2]]);
  });

  test("go on while another waits for the prefix that they compute", () => {
    const { arrive, step } = createBench({ isPrefixCachingEnabled: true, maxNumBatchedTokens: 8 });
    arrive({ promptLength: 20, ...background });
    expect(step()).toEqual({ 1: 8 });
    arrive({ promptLength: 20 });
    expect(step()).toEqual({ 1: 8 });
  });
});
