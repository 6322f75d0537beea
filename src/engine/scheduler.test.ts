/**
 * Property test of the scheduler with the KV manager: a simulated KV memory in which every slot holds the identity of
 * the prefix that ends there. Whatever arrives, is cancelled, shares, or is pre-empted, a step must read exactly its
 * own prefix and nothing may leak. size: the simulation and its reference model, which only these properties use
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { SCHEDULING_POLICIES, type SchedulingPolicyName } from "./api/options.js";
import { KvManager } from "./memory/kv-manager.js";
import { blocksAtOnce } from "./memory/windows.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import type { ScheduledSequence } from "./step/sequence.js";
import { Sequence } from "./step/sequence.js";

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
const PLAIN = { policy: "fcfs", promptTokensBeside: 1000, draftLength: 0 } as const;

class Simulation {
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

const worlds: fc.Arbitrary<Drawn> = fc.record({
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

function worldOf(drawn: Drawn): World {
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

const arrivals: fc.Arbitrary<Arrival[]> = fc.array(
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

describe("scheduler and KV manager", () => {
  test("every step reads exactly its own prefix, everything ends, nothing leaks", () => {
    let numPreemptions = 0;
    let numHits = 0;
    let numWindowHits = 0;
    let numStepsWithGaps = 0;
    fc.assert(
      fc.property(worlds, arrivals, (drawn, requests) => {
        const simulation = new Simulation(worldOf(drawn));
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
    const simulation = new Simulation({
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
    const simulation = new Simulation({
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
    const simulation = new Simulation({
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
    const simulation = new Simulation({
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
    const simulation = new Simulation({
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
    const urgent = new Simulation({ ...world, policy: "priority" });
    urgent.arrive(1, { ...arrival, promptLength: 20, outputLength: 12, priority: 5 });
    urgent.step();
    urgent.step();
    urgent.arrive(2, { ...arrival, promptFamily: 2, promptLength: 28, outputLength: 2, priority: 0 });
    urgent.step();
    expect(urgent.scheduler.running.map(({ id }) => id)).toEqual([2]);

    const sharing = new Simulation(world);
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
