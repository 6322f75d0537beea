/** What single steps of the scheduler compute, in numbers. */
import { describe, expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import type { SchedulingPolicyName } from "./api/options.js";
import { KvManager } from "./memory/kv-manager.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import { Sequence } from "./step/sequence.js";

const DEFAULTS = {
  numBlocks: 64,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 32,
  maxExtraLogitRows: 4,
  isChunkedPrefillEnabled: true,
  isBatchingStatic: false,
  policy: "fcfs" as SchedulingPolicyName,
  promptTokensBeside: 1000,
};

interface Wanted {
  readonly promptLength: number;
  readonly priority?: number;
  readonly tenant?: string;
  readonly isScored?: boolean;
}

/** A scheduler whose blocks hold four tokens and share nothing. */
function createBench(options: Partial<typeof DEFAULTS> = {}) {
  const world = { ...DEFAULTS, ...options };
  const kv = new KvManager({
    windows: [0],
    numBlocks: [world.numBlocks],
    blockSize: 4,
    maxStepTokens: world.maxNumBatchedTokens,
    isPrefixCachingEnabled: false,
    reservedTokens: 0,
  });
  const scheduler = new Scheduler(world, kv, createPolicy(world.policy), {
    promptTokensBeside: (_, most) => Math.min(most, world.promptTokensBeside),
  });
  let numSequences = 0;
  return {
    kv,
    scheduler,
    arrive({ promptLength, priority = 0, tenant = "", isScored = false }: Wanted): Sequence {
      const engineRequest = request(new Array<number>(promptLength).fill(7), isScored ? { numPromptLogprobs: 0 } : {});
      const sequence = new Sequence(++numSequences, { ...engineRequest, priority, tenant }, 1, 0);
      scheduler.add(sequence);
      return sequence;
    },
    /** Plans a step in which sequences that decode get `drafts`, and computes it. @returns id → tokens computed, drafts aside */
    step(drafts: readonly number[] = []): Record<number, number> {
      const { decoding } = scheduler.planDecoding();
      decoding.forEach((sequence, index) => {
        sequence.setDraft(new Array<number>(drafts[index] ?? 0).fill(9));
      });
      const scheduled = scheduler.planRest();
      for (const { sequence, numNewTokens } of scheduled) {
        sequence.numComputedTokens += numNewTokens;
        kv.settle(sequence);
        if (sequence.numComputedTokens === sequence.numTokens) sequence.append(8);
        sequence.numDraftTokens = 0;
      }
      return Object.fromEntries(scheduled.map(({ sequence, numNewTokens }) => [sequence.id, numNewTokens]));
    },
  };
}

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
