/**
 * A scheduler with its KV manager over a simulated KV memory, in which every slot holds the identity of the prefix that
 * ends there: each step is checked to read exactly its own prefix.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { SCHEDULING_POLICIES, type SchedulingPolicyName } from "../../src/engine/api/options.js";
import { KvManager } from "../../src/engine/memory/kv-manager.js";
import { blocksAtOnce } from "../../src/engine/memory/windows.js";
import { Scheduler } from "../../src/engine/scheduler.js";
import { createPolicy } from "../../src/engine/scheduling-policy.js";
import type { ScheduledSequence } from "../../src/engine/step/sequence.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { request } from "./engine-requests.js";

interface World {
  /** Per KV group; 0 = everything is kept. */
  readonly windows: readonly number[];
  readonly blockSize: number;
  /** Per KV group. */
  readonly numBlocks: readonly number[];
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly isPrefixCachingEnabled: boolean;
  readonly isBatchingStatic: boolean;
  readonly isContiguous: boolean;
  readonly policy: SchedulingPolicyName;
  readonly promptTokensBeside: number;
  /** Drafted tokens per sequence; those of even position come true. */
  readonly draftLength: number;
}

interface Arrival {
  readonly atStep: number;
  readonly promptFamily: number;
  readonly promptLength: number;
  readonly outputLength: number;
  readonly cancelAfterSteps: number | undefined;
  readonly salt: string;
  readonly wantsPromptLogprobs: boolean;
  readonly priority: number;
  readonly isBackground?: boolean;
}

const MAX_TOKENS = 64;
const MAX_EXTRA_LOGIT_ROWS = 4;
/** A world without drafts, whose prompts come as they are. */
export const PLAIN = { policy: "fcfs", promptTokensBeside: 1000, draftLength: 0 } as const;

export class SchedulerSimulation {
  readonly kv: KvManager;
  readonly scheduler: Scheduler;
  /** Per group and slot: the prefix stored there, as text. */
  readonly #memory: string[][];
  readonly live = new Map<number, { sequence: Sequence; outputLength: number; cancelAtStep: number | undefined }>();
  numSteps = 0;
  /** Steps of a sequence that has given blocks back. */
  numStepsWithGaps = 0;

  constructor(readonly world: World) {
    const { numBlocks, blockSize } = world;
    this.kv = new KvManager({
      ...world,
      maxStepTokens: world.maxNumBatchedTokens,
      reservedTokens: world.isContiguous ? MAX_TOKENS : 0,
    });
    this.scheduler = new Scheduler(
      { ...world, maxExtraLogitRows: MAX_EXTRA_LOGIT_ROWS, numForks: 0, isChunkedPrefillEnabled: true },
      this.kv,
      createPolicy(world.policy),
      {
        promptTokensBeside: (_, most) => Math.min(most, world.promptTokensBeside),
        backgroundTokens: (most) => Math.min(most, 5),
      },
    );
    this.#memory = numBlocks.map((count) => new Array<string>(count * blockSize).fill("never written"));
  }

  arrive(id: number, arrival: Arrival): void {
    const prompt = Array.from({ length: arrival.promptLength }, (_, i) =>
      i < 24 ? arrival.promptFamily : id * 100 + i,
    );
    const sequence = new Sequence(
      id,
      {
        ...request(prompt, arrival.wantsPromptLogprobs ? { numPromptLogprobs: 0 } : {}),
        cacheSalt: arrival.salt,
        priority: arrival.priority,
        ...(arrival.isBackground === undefined ? {} : { isBackground: arrival.isBackground }),
        tenant: arrival.salt,
      },
      this.world.windows.length,
      0,
    );
    const cancelAtStep = arrival.cancelAfterSteps === undefined ? undefined : this.numSteps + arrival.cancelAfterSteps;
    this.live.set(id, { sequence, outputLength: arrival.outputLength, cancelAtStep });
    this.scheduler.add(sequence);
  }

  step(): void {
    this.numSteps++;
    for (const [id, { sequence, cancelAtStep }] of this.live) {
      if (cancelAtStep !== undefined && this.numSteps >= cancelAtStep) this.#end(id, sequence);
    }
    if (this.live.size === 0) return;
    const { decoding, maxDraftRows } = this.scheduler.planDecoding();
    if (maxDraftRows > 0) this.#draft(decoding, maxDraftRows);
    const scheduled = this.scheduler.planDraftsAndPrompts();
    expect(scheduled.length).toBeGreaterThan(0);
    this.#checkShape(scheduled);
    for (const entry of scheduled) this.#compute(entry);
    for (const entry of scheduled) this.#advance(entry);
  }

  #checkShape(scheduled: readonly ScheduledSequence[]): void {
    const numTokens = scheduled.reduce((sum, each) => sum + each.numNewTokens + each.sequence.numDraftTokens, 0);
    expect(numTokens).toBeLessThanOrEqual(this.world.maxNumBatchedTokens);
    const numExtraLogits = scheduled.reduce((sum, each) => sum + numScored(each) + each.sequence.numDraftTokens, 0);
    expect(numExtraLogits).toBeLessThanOrEqual(MAX_EXTRA_LOGIT_ROWS);
    expect(this.scheduler.running.length).toBeLessThanOrEqual(this.world.maxNumSeqs);
    const seats = this.scheduler.running.map((sequence) => sequence.seat);
    expect(new Set(seats).size).toBe(seats.length);
    expect(new Set(scheduled.map(({ sequence }) => sequence)).size).toBe(scheduled.length);
    // Nobody else's step is longer for a background sequence, and where somebody else can go on, he does.
    const kinds = new Set(scheduled.map(({ sequence }) => sequence.isBackground));
    const isOtherRunning = this.scheduler.running.some(({ isBackground }) => !isBackground);
    expect([...kinds]).toEqual([!isOtherRunning]);
    if (kinds.has(true)) expect(numTokens).toBeLessThanOrEqual(5);
  }

  #compute({ sequence, numNewTokens }: ScheduledSequence): void {
    const first = sequence.numComputedTokens;
    const end = first + numNewTokens + sequence.numDraftTokens;
    this.world.windows.forEach((window, group) => {
      const slots = this.#memory[group]!;
      for (let position = first; position < end; position++) {
        slots[this.#slot(sequence, group, position)] = prefixName(sequence, position);
      }
      const seen = window === 0 ? 0 : Math.max(0, first + 1 - window);
      for (let position = seen; position < end; position++) {
        const found = slots[this.#slot(sequence, group, position)];
        if (found === prefixName(sequence, position)) continue;
        throw new Error(`sequence ${sequence.id} reads ${found} at position ${position} of group ${group}`);
      }
      this.#checkHeld(sequence, group, end - seen);
    });
  }

  #slot(sequence: Sequence, group: number, position: number): number {
    const { blockSize } = this.world;
    const block = sequence.blockTables[group]![Math.floor(position / blockSize)] ?? -1;
    if (block < 0) throw new Error(`sequence ${sequence.id} has no block for position ${position} of group ${group}`);
    return block * blockSize + (position % blockSize);
  }

  /** No more than what the step sees, the ends of its first and last block, and what a longer draft has left. */
  #checkHeld(sequence: Sequence, group: number, numSeen: number): void {
    const { blockSize, draftLength, isContiguous } = this.world;
    if (isContiguous) return;
    const numHeld = sequence.blockTables[group]!.filter((block) => block !== -1).length;
    expect(numHeld * blockSize).toBeLessThanOrEqual(numSeen + 2 * (blockSize - 1) + draftLength);
    if (numHeld < sequence.blockTables[group]!.length) this.numStepsWithGaps++;
  }

  #advance({ sequence, numNewTokens }: ScheduledSequence): void {
    const { promptLogprobs } = sequence;
    const { numDraftTokens } = sequence;
    sequence.numDraftTokens = 0;
    sequence.numComputedTokens += numNewTokens;
    const numScored = Math.min(sequence.numComputedTokens, sequence.numPromptTokens - 1);
    while (promptLogprobs !== undefined && promptLogprobs.length - 1 < numScored) promptLogprobs.push(null);
    this.kv.publishAndTrim(sequence);
    if (sequence.numComputedTokens < sequence.numTokens) return;
    const { outputLength } = this.live.get(sequence.id)!;
    if (sequence.numOutputTokens >= outputLength) {
      this.#end(sequence.id, sequence);
      return;
    }
    for (let i = 0; i < numDraftTokens; i++) {
      const drafted = sequence.tokens[sequence.numTokens];
      sequence.append(nextToken(sequence));
      if (drafted !== sequence.tokens[sequence.numTokens - 1]) return;
      sequence.numComputedTokens++;
    }
    this.kv.publishAndTrim(sequence);
    if (sequence.numOutputTokens >= outputLength) this.#end(sequence.id, sequence);
    else sequence.append(nextToken(sequence));
  }

  #draft(decoding: readonly Sequence[], maxRows: number): void {
    let numLeft = maxRows;
    for (const sequence of decoding) {
      const { outputLength } = this.live.get(sequence.id)!;
      const length = Math.min(numLeft, this.world.draftLength, outputLength - sequence.numOutputTokens);
      if (length < 1) continue;
      numLeft -= length;
      const first = sequence.numTokens;
      const right = (i: number) => sequence.id * 1000 + first + i;
      sequence.setDraft(Array.from({ length }, (_, i) => ((first + i) % 5 === 0 ? 7 : right(i))));
    }
  }

  #end(id: number, sequence: Sequence): void {
    this.live.delete(id);
    this.scheduler.remove(sequence);
  }
}

/** Prompt tokens whose log-probability the step computes for the first time. */
function numScored({ sequence, numNewTokens }: ScheduledSequence): number {
  const { numComputedTokens, numPromptTokens, promptLogprobs } = sequence;
  if (promptLogprobs === undefined) return 0;
  const targets = Array.from({ length: numNewTokens }, (_, i) => numComputedTokens + i + 1);
  return targets.filter((target) => target >= promptLogprobs.length && target < numPromptTokens).length;
}

const nextToken = (sequence: Sequence): number => sequence.id * 1000 + sequence.numTokens;

function prefixName(sequence: Sequence, position: number): string {
  return `${sequence.cacheSalt}:${sequence.tokens.subarray(0, position + 1).join(",")}`;
}

interface Drawn extends Omit<World, "numBlocks"> {
  /** Blocks of each group beyond those that one sequence needs. */
  readonly numSpareBlocks: number;
}

export const worlds: fc.Arbitrary<Drawn> = fc.record({
  windows: fc.constantFrom([0], [0, 0], [0, 5], [0, 12], [0, 1, 20], [9], [7, 16]),
  blockSize: fc.constantFrom(2, 4, 8),
  numSpareBlocks: fc.integer({ min: 0, max: 6 }),
  maxNumSeqs: fc.constantFrom(1, 3, 4, 6),
  maxNumBatchedTokens: fc.integer({ min: 6, max: 40 }),
  isPrefixCachingEnabled: fc.constantFrom(true, true, false),
  isBatchingStatic: fc.constantFrom(false, false, false, true),
  isContiguous: fc.constantFrom(false, false, false, true),
  policy: fc.constantFrom(...SCHEDULING_POLICIES),
  promptTokensBeside: fc.constantFrom(1, 7, 1000),
  draftLength: fc.constantFrom(0, 1, 3, 9),
});

export function worldOf(drawn: Drawn): World {
  const { blockSize, isContiguous, maxNumBatchedTokens, numSpareBlocks } = drawn;
  const windows = drawn.windows.map((window) => (isContiguous ? 0 : window));
  return {
    ...drawn,
    windows,
    isPrefixCachingEnabled: drawn.isPrefixCachingEnabled && !isContiguous,
    numBlocks: windows.map(
      (window) => blocksAtOnce(window, MAX_TOKENS, maxNumBatchedTokens, blockSize) + numSpareBlocks,
    ),
  };
}

export const arrivals: fc.Arbitrary<Arrival[]> = fc.array(
  fc.record({
    atStep: fc.nat({ max: 10 }),
    promptFamily: fc.integer({ min: 1, max: 3 }),
    promptLength: fc.integer({ min: 1, max: 34 }),
    outputLength: fc.integer({ min: 0, max: 30 }),
    cancelAfterSteps: fc.option(fc.integer({ min: 0, max: 20 }), { nil: undefined, freq: 3 }),
    salt: fc.constantFrom("", "", "tenant"),
    wantsPromptLogprobs: fc.boolean(),
    priority: fc.integer({ min: -1, max: 1 }),
    isBackground: fc.constantFrom(false, false, false, true),
  }),
  { minLength: 1, maxLength: 14, size: "max" },
);
