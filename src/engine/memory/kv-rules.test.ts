/** Who waits for whose prefix, what a store brings back, and when. */
import { beforeEach, describe, expect, test } from "vitest";
import { request } from "../../../test/helpers/engine-requests.js";
import { Sequence } from "../step/sequence.js";
import { KvManager } from "./kv-manager.js";
import type { PrefixNode } from "./prefix-index.js";
import { StateSlots } from "./state-slots.js";

const BLOCK_SIZE = 4;
const IDS = Array.from({ length: 40 }, (_, i) => i + 1);

interface Fields {
  readonly ids?: readonly number[];
  readonly isScored?: boolean;
  readonly salt?: string;
}

let numSequences = 0;
function sequenceOf(numTokens: number, { ids = IDS, isScored = false, salt = "" }: Fields = {}): Sequence {
  const asked = request(ids.slice(0, numTokens), isScored ? { numPromptLogprobs: 0 } : {});
  return new Sequence(++numSequences, { ...asked, cacheSalt: salt }, 1, 0);
}

const managerOf = (numBlocks = 16, isPrefixCachingEnabled = true, states?: StateSlots) =>
  new KvManager({
    states,
    windows: [0],
    numBlocks: [numBlocks],
    blockSize: BLOCK_SIZE,
    maxStepTokens: 64,
    isPrefixCachingEnabled,
    reservedTokens: 0,
  });

/** Computes up to `end` tokens. */
function compute(kv: KvManager, sequence: Sequence, end = sequence.numTokens): void {
  expect(kv.ensureCapacity(sequence, end)).toBe(true);
  sequence.numComputedTokens = end;
  kv.publishAndTrim(sequence);
}

describe("a sequence waits for the one that computes its next block", () => {
  let kv: KvManager;
  let leader: Sequence;
  beforeEach(() => {
    kv = managerOf();
    leader = sequenceOf(17);
    kv.attachPrefix(leader);
  });

  test("as long as that block is not there", () => {
    const follower = sequenceOf(17);
    expect([kv.shouldWaitForLeader(follower), kv.shouldWaitForLeader(leader)]).toEqual([true, false]);
    compute(kv, leader, 16);
    expect(kv.shouldWaitForLeader(follower)).toBe(false);
    kv.attachPrefix(follower);
    expect(follower.numComputedTokens).toBe(16);
  });

  test("of recurrent models as long as the last block that the two share is not there", () => {
    const states = new StateSlots({ numSequences: 2, numDrafts: 0, numSnapshots: 4 }, BLOCK_SIZE);
    const recurrent = managerOf(16, true, states);
    const inputs = () => ({ values: new Int32Array(16) });
    const batch = { stateSources: inputs(), stateTargets: inputs(), stateSnapshots: inputs() };
    const computeEight = (sequence: Sequence) => {
      states.layOut(batch, sequence, { firstRow: 0, numNewTokens: 8, numDraftTokens: 0 });
      compute(recurrent, sequence, sequence.numComputedTokens + 8);
    };
    const first = sequenceOf(33);
    recurrent.attachPrefix(first);
    const follower = sequenceOf(17, { ids: [...IDS.slice(0, 12), ...IDS.slice(20)] });
    expect(recurrent.shouldWaitForLeader(follower)).toBe(true);
    computeEight(first);
    expect(recurrent.shouldWaitForLeader(follower)).toBe(true);
    computeEight(first);
    expect(recurrent.shouldWaitForLeader(follower)).toBe(false);
    recurrent.attachPrefix(follower);
    expect(follower.numComputedTokens).toBe(12);
  });

  test("of recurrent models without reading its whole prompt in each step", () => {
    const states = new StateSlots({ numSequences: 2, numDrafts: 0, numSnapshots: 4 }, BLOCK_SIZE);
    const recurrent = managerOf(16, true, states);
    recurrent.attachPrefix(sequenceOf(17));
    const others = Array.from({ length: 4000 }, (_, i) => i + 100);
    const follower = sequenceOf(4001, { ids: [...IDS.slice(0, 8), ...others] });
    expect(recurrent.shouldWaitForLeader(follower)).toBe(true);
    let numReads = 0;
    const promptKeys = new Proxy(follower.promptKeys, {
      get: (target, name) => {
        numReads++;
        return Reflect.get(target, name) as unknown;
      },
    });
    Object.defineProperty(follower, "promptKeys", { value: promptKeys });
    for (let step = 0; step < 10; step++) expect(recurrent.shouldWaitForLeader(follower)).toBe(true);
    expect(numReads).toBeLessThan(100);
  });

  test("block by block: one with the same beginning goes on where the two part", () => {
    const parting = sequenceOf(17, { ids: [...IDS.slice(0, 8), ...IDS.slice(20)] });
    expect(kv.shouldWaitForLeader(parting)).toBe(true);
    compute(kv, leader, 8);
    expect(kv.shouldWaitForLeader(parting)).toBe(false);
    kv.attachPrefix(parting);
    expect(parting.numComputedTokens).toBe(8);
    // It leads with the blocks that are its own.
    expect(kv.shouldWaitForLeader(sequenceOf(17, { ids: [...IDS.slice(0, 8), ...IDS.slice(20)] }))).toBe(true);
    expect(kv.shouldWaitForLeader(sequenceOf(17))).toBe(true);
  });

  test("no longer than that one is there", () => {
    kv.release(leader);
    expect(kv.shouldWaitForLeader(sequenceOf(17))).toBe(false);
  });

  test("the first of several leads, whoever else comes in or goes", () => {
    const second = sequenceOf(17);
    kv.attachPrefix(second);
    kv.release(second);
    expect(kv.shouldWaitForLeader(sequenceOf(17))).toBe(true);
    kv.attachPrefix(second);
    compute(kv, second, 4);
    kv.release(leader);
    // What the second computes from here on it computes for itself.
    expect(kv.shouldWaitForLeader(sequenceOf(17))).toBe(false);
  });

  test("unless it needs every position itself, has another salt, or has no full block of it", () => {
    const others = [sequenceOf(17, { isScored: true }), sequenceOf(17, { salt: "other" }), sequenceOf(4)];
    expect(others.map((sequence) => kv.shouldWaitForLeader(sequence))).toEqual([false, false, false]);
    expect(kv.shouldWaitForLeader(sequenceOf(5))).toBe(true);
  });

  test("and not where nothing is kept", () => {
    const without = managerOf(16, false);
    const first = sequenceOf(17);
    without.attachPrefix(first);
    expect(without.shouldWaitForLeader(sequenceOf(17))).toBe(false);
    compute(without, first);
    const second = sequenceOf(17);
    without.attachPrefix(second);
    expect([first.promptKeys, first.nodes, second.numComputedTokens]).toEqual([[], [], 0]);
  });
});

test("a scored prompt reads nothing from the cache, but what it computes is there for others", () => {
  const kv = managerOf();
  const numFound: number[] = [];
  for (const isScored of [true, true, false]) {
    const sequence = sequenceOf(17, { isScored });
    kv.attachPrefix(sequence);
    numFound.push(sequence.numComputedTokens);
    compute(kv, sequence);
    kv.release(sequence);
  }
  expect(numFound).toEqual([0, 0, 16]);
});

describe("one that was pre-empted", () => {
  test("finds the blocks of its own output again, and publishes on", () => {
    const kv = managerOf();
    const sequence = sequenceOf(6);
    kv.attachPrefix(sequence);
    compute(kv, sequence);
    for (const token of [7, 8, 9]) sequence.append(token);
    compute(kv, sequence, 8);
    kv.release(sequence);
    expect([sequence.numComputedTokens, sequence.nodes, kv.numUsedBlocks]).toEqual([0, [], 0]);
    kv.attachPrefix(sequence);
    expect([sequence.numComputedTokens, sequence.nodes.length]).toEqual([8, 2]);
    for (const token of [10, 11, 12, 13]) sequence.append(token);
    compute(kv, sequence, 12);
    expect(sequence.nodes).toHaveLength(3);
    expect(kv.usedBlocksOf(0)).toBe(3);
    expect([kv.numUsedBlocks, kv.numBlocks]).toEqual([3, 16]);
  });
});

test("room counts what others were promised", () => {
  const kv = managerOf(8);
  expect([kv.hasRoomFor(sequenceOf(17), [3]), kv.hasRoomFor(sequenceOf(17), [4])]).toEqual([true, false]);
});

test("a sequence that holds more than it needs makes no room for others", () => {
  const kv = managerOf();
  const [first, second] = [sequenceOf(4), sequenceOf(5)];
  kv.ensureCapacity(first, 12);
  expect(kv.promisedTo([first, second])).toEqual([2]);
});

test("room is needed in every group", () => {
  const options = { windows: [0, 8], blockSize: BLOCK_SIZE, maxStepTokens: 4, isPrefixCachingEnabled: true };
  const kv = new KvManager({ ...options, numBlocks: [16, 2], reservedTokens: 0 });
  const sequence = new Sequence(1, request(IDS.slice(0, 17)), 2, 0);
  expect(kv.hasRoomFor(sequence, [0, 0])).toBe(false);
  // The main group is the one that sees everything.
  expect([kv.numBlocks, kv.numUsedBlocks]).toEqual([16, 0]);
  const other = new KvManager({ ...options, windows: [8, 0], numBlocks: [4, 16], reservedTokens: 0 });
  expect(other.numBlocks).toBe(16);
});

describe("a store", () => {
  /** Has the first blocks of a text, in order. */
  class Store {
    readonly restored: { tokens: number[]; parent: PrefixNode; blocks: readonly number[] }[] = [];
    readonly published: PrefixNode[] = [];
    isWell = true;

    constructor(
      private readonly numBlocks: number,
      readonly blocksPerStep = 100,
    ) {}

    has(_: PrefixNode, tokens: Int32Array): boolean {
      return tokens[0]! <= this.numBlocks * BLOCK_SIZE && tokens.length === BLOCK_SIZE;
    }

    restore(parent: PrefixNode, tokens: Int32Array, blocks: readonly number[]): boolean {
      this.restored.push({ tokens: [...tokens], parent, blocks });
      return this.isWell;
    }

    onPublished(node: PrefixNode): void {
      this.published.push(node);
    }
  }

  function admit(kv: KvManager, sequence: Sequence): boolean {
    kv.attachPrefix(sequence);
    return kv.restore(sequence);
  }

  test("fills block after block behind what is computed, and these are published", () => {
    const kv = managerOf();
    const store = new Store(3);
    kv.store = store;
    const sequence = sequenceOf(20);
    expect([admit(kv, sequence), sequence.numComputedTokens]).toEqual([false, 12]);
    expect(store.restored.map(({ tokens }) => tokens)).toEqual([IDS.slice(0, 4), IDS.slice(4, 8), IDS.slice(8, 12)]);
    expect(store.restored.map(({ blocks }) => blocks)).toEqual(sequence.blockTables[0]!.map((block) => [block]));
    const [first, second] = sequence.nodes;
    expect(store.restored.slice(1).map(({ parent }) => parent)).toEqual([first, second]);
    expect(store.restored[0]!.parent.parent).toBeNull();
    expect(store.published).toEqual(sequence.nodes);
    const other = sequenceOf(20);
    kv.attachPrefix(other);
    expect(other.numComputedTokens).toBe(12);
  });

  test("leaves the last token to be computed", () => {
    for (const [numTokens, numRestored] of [
      [8, 4],
      [9, 8],
      [10, 8],
    ] as const) {
      const kv = managerOf();
      kv.store = new Store(9);
      const sequence = sequenceOf(numTokens);
      admit(kv, sequence);
      expect([numTokens, sequence.numComputedTokens]).toEqual([numTokens, numRestored]);
    }
  });

  test("is not asked in the middle of a block", () => {
    const kv = managerOf();
    const sequence = sequenceOf(20);
    kv.attachPrefix(sequence);
    compute(kv, sequence, 6);
    const store = new Store(9);
    kv.store = store;
    expect([kv.restore(sequence), sequence.numComputedTokens, store.restored]).toEqual([false, 6, []]);
  });

  test("brings back so many blocks a step, for all sequences together, and says whether there are more", () => {
    const kv = managerOf();
    kv.store = new Store(4, 3);
    const sequence = sequenceOf(20);
    const other = sequenceOf(20, { salt: "other" });
    expect([admit(kv, sequence), sequence.numComputedTokens]).toEqual([true, 12]);
    expect([admit(kv, other), other.numComputedTokens]).toEqual([true, 0]);
    kv.beginStep();
    expect([kv.restore(sequence), sequence.numComputedTokens]).toEqual([false, 16]);
    expect([kv.restore(other), other.numComputedTokens]).toEqual([true, 8]);
  });

  test("that fails ends there: the block is computed, and nothing behind it is asked for", () => {
    const kv = managerOf();
    const store = new Store(9);
    store.isWell = false;
    kv.store = store;
    const sequence = sequenceOf(20);
    expect([admit(kv, sequence), sequence.numComputedTokens, sequence.nodes]).toEqual([false, 0, []]);
    expect([store.restored.length, store.published]).toEqual([1, []]);
  });

  test("takes free blocks only", () => {
    const kv = managerOf(2);
    kv.store = new Store(9);
    const sequence = sequenceOf(20);
    expect([admit(kv, sequence), sequence.numComputedTokens, kv.usedBlocksOf(0)]).toEqual([false, 8, 2]);
  });

  test("is nothing for a scored prompt, nor where nothing is kept", () => {
    for (const [isScored, isKept] of [
      [true, true],
      [false, false],
    ] as const) {
      const kv = managerOf(16, isKept);
      const store = new Store(9);
      kv.store = store;
      const sequence = sequenceOf(20, { isScored });
      expect([admit(kv, sequence), sequence.numComputedTokens, store.restored]).toEqual([false, 0, []]);
    }
  });

  test("counts as cached once: at the first admission, or while the first seat is held", () => {
    const kv = managerOf();
    kv.store = new Store(2, 1);
    const sequence = sequenceOf(20);
    admit(kv, sequence);
    expect([sequence.numCachedTokens, kv.hitTokens]).toEqual([0, 0]);
    kv.countFirstAdmission(sequence);
    sequence.numAdmissions = 1;
    sequence.seat = 0;
    expect([sequence.numCachedTokens, kv.hitTokens, kv.queriedTokens]).toEqual([4, 4, 20]);
    kv.beginStep();
    kv.restore(sequence);
    expect([sequence.numCachedTokens, kv.hitTokens]).toEqual([8, 8]);
    kv.release(sequence);
    // Admitted again, whether it holds no seat yet or has one: no news.
    for (const [seat, numAdmissions] of [
      [-1, 1],
      [0, 2],
    ] as const) {
      const again = managerOf();
      again.store = new Store(2, 100);
      Object.assign(sequence, { seat, numAdmissions });
      admit(again, sequence);
      expect([sequence.numComputedTokens, sequence.numCachedTokens, again.hitTokens]).toEqual([8, 8, 0]);
      again.release(sequence);
    }
  });
});

describe("groups that share a pool", () => {
  const NUM_TOKENS = 41;
  /** Both groups have full attention; `numFree` blocks are left beside the sequence's 2 × 11. */
  const shared = (numFree: number) =>
    new KvManager({
      windows: [0, 0],
      pools: [0, 0],
      numBlocks: [11 + numFree / 2, 11 + numFree / 2],
      blockSize: BLOCK_SIZE,
      maxStepTokens: 64,
      isPrefixCachingEnabled: true,
      reservedTokens: 0,
    });
  const ids = Array.from({ length: NUM_TOKENS }, (_, i) => i + 1);
  const strange = ids.map((id) => id + 1000);
  const inBoth = (from: readonly number[]) => new Sequence(++numSequences, { ...request(from), cacheSalt: "" }, 2, 0);
  /** Tokens of the prompt that another sequence would find. */
  const found = (kv: KvManager): number => {
    const next = inBoth(ids);
    kv.attachPrefix(next);
    const numFound = next.numComputedTokens;
    kv.release(next);
    return numFound;
  };

  test("lose the ends of their prefixes first, all groups alike, when a sequence ends", () => {
    const kv = shared(0);
    const first = inBoth(ids);
    compute(kv, first);
    kv.release(first);
    // Takes 2 × 5 blocks: those of the last tokens.
    compute(kv, inBoth(strange.slice(0, 20)));
    expect(found(kv)).toBe(24);
  });

  test("lose the ends of their prefixes first when entries are evicted", () => {
    const kv = shared(0);
    const first = inBoth(ids);
    compute(kv, first);
    kv.evict(
      first,
      [0, 1],
      [
        [0, 9, 10],
        [0, 3, 10],
      ],
    );
    expect([first.numEvicted, first.blockTables.map(({ length }) => length)]).toEqual([
      [8, 8],
      [3, 3],
    ]);
    expect(kv.numUsedBlocks).toBe(3);
    compute(kv, inBoth(strange.slice(0, 20)));
    expect(found(kv)).toBeGreaterThanOrEqual(12);
  });

  test("are used up together", () => {
    const kv = shared(2);
    compute(kv, inBoth(ids));
    expect([kv.numUsedBlocks, kv.ensureCapacity(inBoth(strange), 4), kv.ensureCapacity(inBoth(strange), 8)]).toEqual([
      11,
      true,
      false,
    ]);
  });
});
