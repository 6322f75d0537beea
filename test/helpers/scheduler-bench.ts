/** A scheduler with KV memory and nothing else: sequences arrive, and steps are planned and "computed" at once. */
import type { SchedulingPolicyName } from "../../src/engine/api/options.js";
import { KvManager } from "../../src/engine/memory/kv-manager.js";
import { Scheduler } from "../../src/engine/scheduler.js";
import { createPolicy, type SchedulingPolicy } from "../../src/engine/scheduling-policy.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { request } from "./engine-requests.js";

const DEFAULTS = {
  numBlocks: 64,
  maxNumSeqs: 4,
  maxNumBatchedTokens: 32,
  maxExtraLogitRows: 4,
  numForks: 0,
  isChunkedPrefillEnabled: true,
  isBatchingStatic: false,
  policy: "fcfs" as SchedulingPolicyName,
  promptTokensBeside: 1000,
  isPrefixCachingEnabled: false,
};

/** In order of priority; everybody may be displaced by whoever goes first. Keeps what it hears. */
export class WatchedPolicy implements SchedulingPolicy {
  readonly heard: unknown[][] = [];
  readonly asked: { victim: number; running: number[]; isSeatShort: boolean }[] = [];

  compare(a: Sequence, b: Sequence): number {
    return a.priority - b.priority || a.id - b.id;
  }

  mayDisplace(waiting: Sequence, victim: Sequence, running: readonly Sequence[], isSeatShort: boolean): boolean {
    this.asked.push({ victim: victim.id, running: running.map(({ id }) => id), isSeatShort });
    return waiting.priority < victim.priority;
  }

  add({ id }: Sequence): void {
    this.heard.push(["add", id]);
  }

  charge({ id }: Sequence, numPromptTokens: number, numOutputTokens: number): void {
    this.heard.push(["charge", id, numPromptTokens, numOutputTokens]);
  }

  remove({ id }: Sequence): void {
    this.heard.push(["remove", id]);
  }
}

interface Wanted {
  readonly promptLength: number;
  readonly priority?: number;
  readonly tenant?: string;
  readonly isScored?: boolean;
  /** All of the prompt. */
  readonly token?: number;
  readonly isBackground?: boolean;
}

/** A scheduler whose blocks hold four tokens. */
export function createBench(options: Partial<typeof DEFAULTS> = {}, policy?: SchedulingPolicy) {
  const world = { ...DEFAULTS, ...options };
  const kv = new KvManager({
    windows: [0],
    numBlocks: [world.numBlocks],
    blockSize: 4,
    maxStepTokens: world.maxNumBatchedTokens,
    isPrefixCachingEnabled: world.isPrefixCachingEnabled,
    reservedTokens: 0,
  });
  /** Decoding rows, and prompt tokens at most. */
  const advised: [number, number][] = [];
  const scheduler = new Scheduler(world, kv, policy ?? createPolicy(world.policy), {
    promptTokensBeside: (numDecodingRows, most) => {
      advised.push([numDecodingRows, most]);
      return Math.min(most, world.promptTokensBeside);
    },
    backgroundTokens: (most) => Math.min(most, 32),
  });
  let numSequences = 0;
  return {
    kv,
    scheduler,
    advised,
    running: () => scheduler.running.map(({ id }) => id),
    waiting: () => scheduler.waiting.map(({ id }) => id),
    arrive({
      promptLength,
      priority = 0,
      tenant = "",
      isScored = false,
      token = 7,
      isBackground = false,
    }: Wanted): Sequence {
      const engineRequest = request(
        new Array<number>(promptLength).fill(token),
        isScored ? { numPromptLogprobs: 0 } : {},
      );
      const sequence = new Sequence(++numSequences, { ...engineRequest, priority, tenant, isBackground }, 1, 0);
      scheduler.add(sequence);
      return sequence;
    },
    /**
     * Plans a step in which sequences that decode get `drafts`, and computes it.
     * @returns id → tokens computed, drafts aside
     */
    step(drafts: readonly number[] = []): Record<number, number> {
      const { decoding } = scheduler.planDecoding();
      decoding.forEach((sequence, index) => {
        sequence.setDraft(new Array<number>(drafts[index] ?? 0).fill(9));
      });
      const scheduled = scheduler.planDraftsAndPrompts();
      for (const { sequence, numNewTokens } of scheduled) {
        sequence.numComputedTokens += numNewTokens;
        const numScored = Math.min(sequence.numComputedTokens, sequence.numPromptTokens - 1);
        const { promptLogprobs } = sequence;
        while (promptLogprobs !== undefined && promptLogprobs.length - 1 < numScored) promptLogprobs.push(null);
        kv.publishAndTrim(sequence);
        if (sequence.numComputedTokens === sequence.numTokens) sequence.append(8);
        sequence.numDraftTokens = 0;
      }
      return Object.fromEntries(scheduled.map(({ sequence, numNewTokens }) => [sequence.id, numNewTokens]));
    },
  };
}
