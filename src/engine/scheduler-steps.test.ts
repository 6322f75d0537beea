/** What single steps of the scheduler compute, in numbers. */
import { describe, expect, test } from "vitest";
import { createBench, WatchedPolicy } from "../../test/helpers/scheduler-bench.js";

describe("admission", () => {
  test("the first request that cannot be admitted ends admission, so that smaller ones never overtake it for ever", () => {
    const { arrive, scheduler, step } = createBench({ numBlocks: 10 });
    const first = arrive({ promptLength: 20 });
    expect(step()).toEqual({ 1: 20 });
    const large = arrive({ promptLength: 28 });
    for (let n = 0; n < 3; n++) arrive({ promptLength: 4 });
    expect(step()).toEqual({ 1: 1 });
    expect(scheduler.waiting).toHaveLength(4);
    scheduler.remove(first);
    expect(step()).toEqual({ 2: 28, 3: 4 });
    expect(large.seat).toBeGreaterThanOrEqual(0);
  });

  test("gives each sequence one of the batch's seats, and takes it back", () => {
    const { arrive, scheduler, step } = createBench({ maxNumSeqs: 3 });
    const sequences = [1, 2, 3].map(() => arrive({ promptLength: 4 }));
    step();
    expect(sequences.map(({ seat }) => seat).sort()).toEqual([0, 1, 2]);
    const [first] = sequences;
    first!.numTableEntriesWritten.fill(1);
    const { seat } = first!;
    scheduler.remove(first!);
    expect([first!.seat, ...first!.numTableEntriesWritten]).toEqual([-1, 0]);
    const next = arrive({ promptLength: 4 });
    step();
    expect(next.seat).toBe(seat);
  });

  test("ends with the step's tokens", () => {
    const { arrive, running, step } = createBench({ maxNumBatchedTokens: 8 });
    arrive({ promptLength: 8 });
    arrive({ promptLength: 8 });
    expect([step(), running()]).toEqual([{ 1: 8 }, [1]]);
  });

  test("takes the step's last token", () => {
    const { arrive, step } = createBench({ maxNumBatchedTokens: 9 });
    arrive({ promptLength: 8 });
    arrive({ promptLength: 8 });
    expect(step()).toEqual({ 1: 8, 2: 1 });
  });

  test("of a static batch gives seats to all that have a place, whether the step has tokens for them or not", () => {
    const { arrive, running, step, scheduler, advised } = createBench({
      maxNumBatchedTokens: 8,
      isBatchingStatic: true,
    });
    arrive({ promptLength: 8 });
    arrive({ promptLength: 7 });
    arrive({ promptLength: 1 });
    expect([step(), running()]).toEqual([{ 1: 8 }, [1, 2, 3]]);
    arrive({ promptLength: 4, isScored: true });
    expect(step()).toEqual({ 1: 1, 2: 6, 3: 1 });
    expect(step()).toEqual({ 1: 1, 2: 1, 3: 1 });
    // Requests behind the batch are none of its steps' prompts.
    expect(advised).toEqual([
      [2, 6],
      [3, 0],
    ]);
    expect(scheduler.planDecoding().maxDraftRows).toBe(4);
  });

  test("follows a preemption by a step, but for a sequence that may displace others", () => {
    const { arrive, running, scheduler, step, waiting } = createBench({
      numBlocks: 10,
      maxNumBatchedTokens: 64,
      policy: "priority",
    });
    const [first, second] = [arrive({ promptLength: 19 }), arrive({ promptLength: 19, priority: 2 })];
    step();
    expect([first.numTokens, second.numTokens, scheduler.numPreemptions]).toEqual([20, 20, 0]);
    step();
    arrive({ promptLength: 4, priority: 1 });
    expect(step()).toEqual({ 1: 1 });
    expect([running(), waiting(), scheduler.numPreemptions]).toEqual([[1], [3, 2], 1]);
    expect(step()).toEqual({ 1: 1, 3: 4 });
  });
});

describe("a sequence that ends twice", () => {
  test.each([true, false])("takes nobody along (running: %s)", (isRunning) => {
    const { arrive, running, scheduler, step, waiting } = createBench();
    const [first] = [arrive({ promptLength: 4 }), arrive({ promptLength: 4 })];
    if (isRunning) step();
    scheduler.remove(first!);
    scheduler.remove(first!);
    expect([...running(), ...waiting()]).toEqual([2]);
  });
});

describe("the policy", () => {
  test("hears of arrivals and ends, and of each position once, though it is computed again", () => {
    const policy = new WatchedPolicy();
    const { arrive, scheduler, step } = createBench({ maxNumBatchedTokens: 8, maxNumSeqs: 1 }, policy);
    const sequence = arrive({ promptLength: 12, priority: 5 });
    for (let n = 0; n < 3; n++) step();
    const urgent = arrive({ promptLength: 1, priority: 0 });
    step();
    expect([urgent.seat >= 0, sequence.seat >= 0]).toEqual([true, false]);
    scheduler.remove(urgent);
    for (let n = 0; n < 3; n++) step();
    scheduler.remove(sequence);
    expect(policy.heard).toEqual([
      ["add", 1],
      ["charge", 1, 8, 0],
      ["charge", 1, 4, 0],
      ["charge", 1, 0, 1],
      ["add", 2],
      ["charge", 1, 0, 1],
      ["charge", 2, 1, 0],
      ["remove", 2],
      ["charge", 1, 0, 1],
      ["remove", 1],
    ]);
  });

  test("says whose drafts come first, and whose prompt", () => {
    const { arrive, scheduler, step } = createBench({ policy: "priority" });
    const late = arrive({ promptLength: 4, priority: 5 });
    step();
    const urgent = arrive({ promptLength: 4, priority: 0 });
    step();
    expect(scheduler.planDecoding().decoding).toEqual([urgent, late]);
    scheduler.planDraftsAndPrompts();
    const busy = createBench({ maxNumBatchedTokens: 8, policy: "priority" });
    busy.arrive({ promptLength: 20, priority: 5 });
    busy.step();
    busy.arrive({ promptLength: 6, priority: 0 });
    expect(busy.step()).toEqual({ 2: 6, 1: 2 });
  });

  test("says who gives memory back: the last in its order", () => {
    const { arrive, step, running } = createBench({ numBlocks: 10 });
    arrive({ promptLength: 19 });
    arrive({ promptLength: 19 });
    step();
    step();
    expect([step(), running()]).toEqual([{ 1: 1 }, [1]]);
  });
});

describe("room for drafts", () => {
  test("is none where nothing decodes", () => {
    const { arrive, scheduler } = createBench();
    arrive({ promptLength: 8 });
    expect(scheduler.planDecoding()).toEqual({ decoding: [], numRows: 0, maxDraftRows: 0 });
  });

  test("is what decoding and the prompts that can come in leave of the step's tokens", () => {
    const { advised, arrive, scheduler, step } = createBench({ maxExtraLogitRows: 100, numBlocks: 20 });
    const first = arrive({ promptLength: 4 });
    step();
    arrive({ promptLength: 10 });
    // No memory for this one, and so none for those behind it.
    arrive({ promptLength: 76 });
    arrive({ promptLength: 4 });
    expect(scheduler.planDecoding()).toEqual({ decoding: [first], numRows: 11, maxDraftRows: 21 });
    expect(advised).toEqual([[1, 31]]);
  });

  test("is left to those that come in first by the policy", () => {
    const { arrive, scheduler, step } = createBench({ numBlocks: 20, policy: "priority" });
    arrive({ promptLength: 4 });
    step();
    arrive({ promptLength: 76, priority: 5 });
    arrive({ promptLength: 10, priority: 1 });
    expect(scheduler.planDecoding().numRows).toBe(11);
  });

  test("does not wait for requests that have no seat", () => {
    const { arrive, scheduler, step } = createBench({ maxExtraLogitRows: 100, maxNumSeqs: 1 });
    arrive({ promptLength: 4 });
    step();
    arrive({ promptLength: 10 });
    expect(scheduler.planDecoding()).toMatchObject({ numRows: 1, maxDraftRows: 31 });
  });

  test("is never negative, and the advice is asked for what there is", () => {
    const { advised, arrive, scheduler, step } = createBench();
    arrive({ promptLength: 4 });
    step();
    arrive({ promptLength: 8, isScored: true });
    expect(scheduler.planDecoding().maxDraftRows).toBe(0);
    expect(advised).toEqual([[1, 8]]);
  });

  test("is not for a prompt of which one token is left", () => {
    const { arrive, scheduler, step } = createBench({ maxNumBatchedTokens: 8 });
    arrive({ promptLength: 9 });
    step();
    expect(scheduler.planDecoding()).toMatchObject({ decoding: [], numRows: 1 });
  });
});

describe("without chunks", () => {
  test("a prompt waits until it fits into a step as a whole, and is not paced", () => {
    const { advised, arrive, scheduler, step } = createBench({ isChunkedPrefillEnabled: false, promptTokensBeside: 3 });
    const first = arrive({ promptLength: 20 });
    step();
    arrive({ promptLength: 32 });
    expect(step()).toEqual({ 1: 1 });
    scheduler.remove(first);
    expect(step()).toEqual({ 2: 32 });
    arrive({ promptLength: 31 });
    expect(step()).toEqual({ 2: 1, 3: 31 });
    expect(advised).toEqual([]);
  });

  test("a scored prompt that was cut waits again where the rest does not fit into the step", () => {
    const { arrive, step } = createBench({ isChunkedPrefillEnabled: false, policy: "priority" });
    arrive({ promptLength: 30, priority: 5, isScored: true });
    expect(step()).toEqual({ 1: 4 });
    arrive({ promptLength: 20, priority: 0 });
    expect(step()).toEqual({ 2: 20 });
    expect(step()).toEqual({ 2: 1, 1: 4 });
  });

  test("a scored prompt is cut all the same, to the rows of logits that a step has", () => {
    const { arrive, step } = createBench({ isChunkedPrefillEnabled: false });
    arrive({ promptLength: 10, isScored: true });
    expect(step()).toEqual({ 1: 4 });
    const whole = createBench({ isChunkedPrefillEnabled: false });
    whole.arrive({ promptLength: 32, isScored: true });
    expect(whole.step()).toEqual({ 1: 4 });
  });
});

describe("rows of logits", () => {
  test("are shared by the scored prompts of a step, in order", () => {
    const { arrive, step } = createBench();
    arrive({ promptLength: 4, isScored: true });
    arrive({ promptLength: 10, isScored: true });
    expect(step()).toEqual({ 1: 4, 2: 1 });
  });

  test("that are all taken leave a running prompt nothing to compute", () => {
    const { arrive, step } = createBench({ policy: "priority" });
    arrive({ promptLength: 10, priority: 5, isScored: true });
    step();
    arrive({ promptLength: 10, priority: 0, isScored: true });
    expect(step()).toEqual({ 2: 4 });
  });

  test.each([10, 2])("that are all taken keep a scored prompt of %i tokens waiting, without a seat", (promptLength) => {
    const { arrive, running, step } = createBench();
    arrive({ promptLength: 10, isScored: true });
    arrive({ promptLength, isScored: true });
    expect([step(), running()]).toEqual([{ 1: 4 }, [1]]);
  });

  test("are not needed again for positions that were scored before a preemption", () => {
    const { arrive, scheduler, step } = createBench({ policy: "priority", maxNumSeqs: 2, maxExtraLogitRows: 8 });
    const [urgent] = [arrive({ promptLength: 4 }), arrive({ promptLength: 10, priority: 5, isScored: true })];
    step();
    const displacing = arrive({ promptLength: 4, priority: 1 });
    step();
    expect(scheduler.numPreemptions).toBe(1);
    for (const sequence of [urgent!, displacing]) scheduler.remove(sequence);
    arrive({ promptLength: 10, priority: 6, isScored: true });
    expect(step()).toEqual({ 2: 8, 4: 8 });
    expect(step()).toEqual({ 2: 2, 4: 2 });
  });
});
