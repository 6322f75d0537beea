/**
 * Properties of the scheduler with the KV manager, over a simulated KV memory: whatever arrives, is cancelled, shares,
 * or is pre-empted, a step reads exactly its own prefix and nothing leaks.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { arrivals, PLAIN, SchedulerSimulation, worldOf, worlds } from "../../test/helpers/scheduler-simulation.js";
import { KvManager } from "./memory/kv-manager.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import { Sequence } from "./step/sequence.js";

describe("scheduler and KV manager", () => {
  test("every step reads exactly its own prefix, everything ends, nothing leaks", () => {
    let numPreemptions = 0;
    let numHits = 0;
    let numWindowHits = 0;
    let numStepsWithGaps = 0;
    fc.assert(
      fc.property(worlds, arrivals, (drawn, requests) => {
        const simulation = new SchedulerSimulation(worldOf(drawn));
        const pending = requests.map((arrival, index) => ({ arrival, id: index + 1 }));
        while (pending.length > 0 || simulation.live.size > 0) {
          for (const { arrival, id } of pending.filter(({ arrival }) => arrival.atStep <= simulation.numSteps)) {
            simulation.arrive(id, arrival);
          }
          pending.splice(0, pending.length, ...pending.filter(({ arrival }) => arrival.atStep > simulation.numSteps));
          simulation.step();
          expect(simulation.numSteps).toBeLessThan(2000);
        }
        expect(simulation.world.windows.map((_, group) => simulation.kv.usedBlocksOf(group) === 0)).not.toContain(
          false,
        );
        expect(simulation.scheduler.running).toEqual([]);
        expect(simulation.scheduler.waiting).toEqual([]);
        numPreemptions += simulation.scheduler.numPreemptions;
        numHits += simulation.kv.hitTokens;
        if (simulation.world.windows.some((window) => window > 0)) numWindowHits += simulation.kv.hitTokens;
        numStepsWithGaps += simulation.numStepsWithGaps;
      }),
      { numRuns: 400, seed: 20260101 },
    );
    // The property is empty unless the drawn worlds are tight and share prefixes.
    expect(numPreemptions).toBeGreaterThan(50);
    expect(numHits).toBeGreaterThan(500);
    expect(numWindowHits).toBeGreaterThan(200);
    expect(numStepsWithGaps).toBeGreaterThan(500);
  });

  test("a static batch admits nobody until its last row has finished", () => {
    const simulation = new SchedulerSimulation({
      windows: [0],
      blockSize: 4,
      numBlocks: [64],
      maxNumSeqs: 2,
      maxNumBatchedTokens: 64,
      isPrefixCachingEnabled: false,
      isBatchingStatic: true,
      isContiguous: false,
      ...PLAIN,
    });
    const arrival = { atStep: 0, promptFamily: 1, promptLength: 4, salt: "", wantsPromptLogprobs: false, priority: 0 };
    simulation.arrive(1, { ...arrival, outputLength: 1, cancelAfterSteps: undefined });
    simulation.arrive(2, { ...arrival, outputLength: 5, cancelAfterSteps: undefined });
    simulation.arrive(3, { ...arrival, outputLength: 1, cancelAfterSteps: undefined });
    const runningPerStep: number[][] = [];
    while (simulation.live.size > 0) {
      simulation.step();
      runningPerStep.push(simulation.scheduler.running.map((sequence) => sequence.id));
    }
    expect(runningPerStep).toEqual([[1, 2], [2], [2], [2], [2], [], [3], []]);
  });

  test("requests that share an uncomputed prefix wait for the first and then reuse it", () => {
    const simulation = new SchedulerSimulation({
      windows: [0],
      blockSize: 4,
      numBlocks: [64],
      maxNumSeqs: 4,
      maxNumBatchedTokens: 64,
      isPrefixCachingEnabled: true,
      isBatchingStatic: false,
      isContiguous: false,
      ...PLAIN,
    });
    const arrival = {
      atStep: 0,
      promptFamily: 1,
      promptLength: 30,
      outputLength: 2,
      salt: "",
      wantsPromptLogprobs: false,
      priority: 0,
    };
    for (const id of [1, 2, 3]) simulation.arrive(id, { ...arrival, cancelAfterSteps: undefined });
    simulation.step();
    expect(simulation.scheduler.running.map((sequence) => sequence.id)).toEqual([1]);
    simulation.step();
    expect(simulation.scheduler.running.map((sequence) => sequence.id)).toEqual([1, 2, 3]);
    expect(simulation.scheduler.running.map((sequence) => sequence.numCachedTokens)).toEqual([0, 24, 24]);
  });

  test("drafts leave the logits that prompts to be scored wait for", () => {
    const simulation = new SchedulerSimulation({
      windows: [0],
      blockSize: 4,
      numBlocks: [64],
      maxNumSeqs: 2,
      maxNumBatchedTokens: 64,
      isPrefixCachingEnabled: false,
      isBatchingStatic: false,
      isContiguous: false,
      ...PLAIN,
      draftLength: 9,
    });
    const arrival = { atStep: 0, promptFamily: 1, salt: "", priority: 0, cancelAfterSteps: undefined };
    simulation.arrive(1, { ...arrival, promptLength: 4, outputLength: 40, wantsPromptLogprobs: false });
    simulation.step();
    simulation.arrive(2, { ...arrival, promptLength: 5, outputLength: 1, wantsPromptLogprobs: true });
    simulation.step();
    const admitted = simulation.scheduler.running.find(({ id }) => id === 2);
    // All four rows of logits that a step has.
    expect(admitted?.numComputedTokens).toBe(4);
  });

  test("prompts go slowly beside streams, but not while others wait for their seats", () => {
    const simulation = new SchedulerSimulation({
      windows: [0],
      blockSize: 4,
      numBlocks: [64],
      maxNumSeqs: 2,
      maxNumBatchedTokens: 64,
      isPrefixCachingEnabled: false,
      isBatchingStatic: false,
      isContiguous: false,
      ...PLAIN,
      promptTokensBeside: 3,
    });
    const arrival = { atStep: 0, promptFamily: 1, salt: "", wantsPromptLogprobs: false, priority: 0 };
    const arrive = (id: number, promptLength: number) =>
      simulation.arrive(id, { ...arrival, promptLength, outputLength: 9, cancelAfterSteps: undefined });
    const numComputed = () => simulation.scheduler.running.map((sequence) => sequence.numComputedTokens);
    arrive(1, 4);
    simulation.step();
    arrive(2, 30);
    simulation.step();
    expect(numComputed()).toEqual([5, 3]);
    simulation.step();
    expect(numComputed()).toEqual([6, 6]);
    arrive(3, 4);
    simulation.step();
    expect(numComputed()).toEqual([7, 30]);
  });

  test("drafts go on while a request waits for memory", () => {
    const simulation = new SchedulerSimulation({
      windows: [0],
      blockSize: 4,
      numBlocks: [10],
      maxNumSeqs: 4,
      maxNumBatchedTokens: 32,
      isPrefixCachingEnabled: false,
      isBatchingStatic: false,
      isContiguous: false,
      ...PLAIN,
      draftLength: 2,
    });
    const arrival = { atStep: 0, promptFamily: 1, salt: "", priority: 0, cancelAfterSteps: undefined };
    simulation.arrive(1, { ...arrival, promptLength: 4, outputLength: 20, wantsPromptLogprobs: false });
    simulation.step();
    simulation.arrive(2, { ...arrival, promptLength: 40, outputLength: 1, wantsPromptLogprobs: true });
    const [first] = simulation.scheduler.running;
    const before = first!.numTokens;
    for (let step = 0; step < 4; step++) simulation.step();
    expect(simulation.scheduler.waiting.map(({ id }) => id)).toEqual([2]);
    expect(first!.numTokens - before).toBeGreaterThan(4);
  });

  test("who decodes does not keep those out who may displace, or whose prompt is there already", () => {
    const world = {
      windows: [0],
      blockSize: 4,
      numBlocks: [10],
      maxNumSeqs: 4,
      maxNumBatchedTokens: 64,
      isPrefixCachingEnabled: true,
      isBatchingStatic: false,
      isContiguous: false,
      ...PLAIN,
    };
    const arrival = { atStep: 0, promptFamily: 1, salt: "", cancelAfterSteps: undefined, wantsPromptLogprobs: false };
    const urgent = new SchedulerSimulation({ ...world, policy: "priority" });
    urgent.arrive(1, { ...arrival, promptLength: 20, outputLength: 12, priority: 5 });
    urgent.step();
    urgent.step();
    urgent.arrive(2, { ...arrival, promptFamily: 2, promptLength: 28, outputLength: 2, priority: 0 });
    urgent.step();
    expect(urgent.scheduler.running.map(({ id }) => id)).toEqual([2]);

    const sharing = new SchedulerSimulation(world);
    sharing.arrive(1, { ...arrival, promptLength: 28, outputLength: 6, priority: 0 });
    sharing.step();
    sharing.step();
    sharing.arrive(2, { ...arrival, promptLength: 27, outputLength: 2, priority: 0 });
    sharing.step();
    expect(sharing.scheduler.running.map(({ id }) => id)).toEqual([1, 2]);
  });

  test("a tenant that needs much memory does not take turns with those whose memory it is", () => {
    const kv = new KvManager({
      windows: [0],
      numBlocks: [512],
      blockSize: 16,
      maxStepTokens: 128,
      isPrefixCachingEnabled: false,
      reservedTokens: 0,
    });
    const options = { maxNumSeqs: 8, maxNumBatchedTokens: 128, maxExtraLogitRows: 4, numForks: 0 };
    const advice = { promptTokensBeside: (_: number, most: number) => most, backgroundTokens: (most: number) => most };
    const scheduler = new Scheduler(
      { ...options, isChunkedPrefillEnabled: true, isBatchingStatic: false },
      kv,
      createPolicy("fair"),
      advice,
    );
    const step = () => {
      scheduler.planDecoding();
      for (const { sequence, numNewTokens } of scheduler.planDraftsAndPrompts()) {
        sequence.numComputedTokens += numNewTokens;
        kv.publishAndTrim(sequence);
        if (sequence.numComputedTokens === sequence.numTokens) sequence.append(1);
      }
    };
    const arrive = (id: number, tenant: string, length: number): Sequence => {
      const sequence = new Sequence(id, { ...request(new Int32Array(length)), tenant }, 1, 0);
      scheduler.add(sequence);
      return sequence;
    };
    const first = [1, 2, 3].map((id) => arrive(id, "a", 2000));
    for (let n = 0; n < 60; n++) step();
    arrive(4, "b", 6000);
    const before = first.map(({ numTokens }) => numTokens);
    for (let n = 0; n < 100; n++) step();
    expect(scheduler.numPreemptions).toBeLessThanOrEqual(2);
    expect(first.map(({ numTokens }, i) => numTokens - before[i]!)).toEqual([100, 100, 100]);
  });
});
