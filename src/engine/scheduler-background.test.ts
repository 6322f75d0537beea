/**
 * Background sequences: computed where nothing else is, and without a claim to seats or memory. The properties are in
 * scheduler.test.ts.
 */
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

  test("are not waited for by others with the same prefix, who take over from where they are", () => {
    const { arrive, step, scheduler } = createBench({ isPrefixCachingEnabled: true, maxNumBatchedTokens: 16 });
    arrive({ promptLength: 41, ...background });
    expect(step()).toEqual({ 1: 16 });
    const [first, second] = [arrive({ promptLength: 41 }), arrive({ promptLength: 41 })];
    // The first of the others computes the prefix, and the second waits for it.
    expect([step(), step()]).toEqual([{ 2: 16 }, { 2: 9 }]);
    expect(step()).toEqual({ 2: 1, 3: 1 });
    expect([first.numCachedTokens, second.numCachedTokens]).toEqual([16, 40]);
    scheduler.remove(first);
    scheduler.remove(second);
    expect(step()).toEqual({ 1: 16 });
  });

  test("wait for another that computes their prefix, and for one of their own kind", () => {
    const { arrive, step, scheduler } = createBench({ isPrefixCachingEnabled: true, maxNumBatchedTokens: 8 });
    const other = arrive({ promptLength: 20 });
    arrive({ promptLength: 20, ...background });
    arrive({ promptLength: 20, ...background });
    expect([step(), step(), step()]).toEqual([{ 1: 8 }, { 1: 8 }, { 1: 4 }]);
    scheduler.remove(other);
    expect(step()).toEqual({ 2: 4, 3: 4 });
  });

  test("go on where others wait for their end", () => {
    const { arrive, step } = createBench({ isBatchingStatic: true });
    arrive({ promptLength: 4, ...background });
    expect(step()).toEqual({ 1: 4 });
    arrive({ promptLength: 4 });
    expect(step()).toEqual({ 1: 1 });
  });
});
