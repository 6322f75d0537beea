import { describe, expect, test } from "vitest";
import { request } from "../../../test/helpers/engine-requests.js";
import { Scheduler } from "../scheduler.js";
import { createPolicy } from "../scheduling-policy.js";
import { Sequence } from "../step/sequence.js";
import { KvManager } from "./kv-manager.js";

const BLOCK_SIZE = 4;
const WINDOW = 8;
const IDS = Array.from({ length: 60 }, (_, i) => i);

/** Full attention, and a window with as many blocks as a sequence holds at once and one more. */
function createManager(): KvManager {
  return new KvManager({
    windows: [0, WINDOW],
    numBlocks: [32, 5],
    blockSize: BLOCK_SIZE,
    maxStepTokens: BLOCK_SIZE,
    isPrefixCachingEnabled: true,
    reservedTokens: 0,
  });
}

/** Computes the prompt block by block. */
function compute(kv: KvManager, sequence: Sequence): void {
  kv.attachPrefix(sequence);
  while (sequence.numComputedTokens < sequence.numTokens) {
    const end = Math.min(sequence.numComputedTokens + BLOCK_SIZE, sequence.numTokens);
    expect(kv.ensureCapacity(sequence, end)).toBe(true);
    sequence.numComputedTokens = end;
    kv.publishAndTrim(sequence);
  }
}

const prompt = (id: number, length: number) => new Sequence(id, request(IDS.slice(0, length)), 2, 0);

describe("a store", () => {
  test("goes on in the next step where one brings back no more, and what it brought counts as cached", () => {
    const kv = new KvManager({
      windows: [0],
      numBlocks: [32],
      blockSize: BLOCK_SIZE,
      maxStepTokens: 16,
      isPrefixCachingEnabled: true,
      reservedTokens: 0,
    });
    const numStored = 7;
    let numRestored = 0;
    kv.store = {
      blocksPerStep: 3,
      has: () => numRestored < numStored,
      restore: () => numRestored++ < numStored,
      onPublished: () => {},
    };
    const scheduler = new Scheduler(
      {
        maxNumSeqs: 1,
        maxNumBatchedTokens: 16,
        maxExtraLogitRows: 4,
        numForks: 0,
        isChunkedPrefillEnabled: true,
        isBatchingStatic: false,
      },
      kv,
      createPolicy("fcfs"),
      { promptTokensBeside: (_, most) => most, backgroundTokens: (most) => most },
    );
    const sequence = new Sequence(1, request(IDS), 1, 0);
    scheduler.add(sequence);
    const numComputed = [];
    while (sequence.numComputedTokens < sequence.numTokens) {
      scheduler.planDecoding();
      for (const { numNewTokens } of scheduler.planDraftsAndPrompts()) {
        numComputed.push(numNewTokens);
        sequence.numComputedTokens += numNewTokens;
        kv.publishAndTrim(sequence);
      }
    }
    // Three blocks come back, one is computed, three come back, one is computed, one comes back, and the rest is
    // computed.
    expect(numComputed).toEqual([4, 4, 16, 8]);
    expect(sequence.numCachedTokens).toBe(numStored * BLOCK_SIZE);
    expect(kv.hitTokens).toBe(numStored * BLOCK_SIZE);
    expect(kv.queriedTokens).toBe(60);
  });
});

describe("sequences that leave", () => {
  test("make room with the blocks that nobody else holds", () => {
    const kv = new KvManager({
      windows: [0],
      numBlocks: [12],
      blockSize: BLOCK_SIZE,
      maxStepTokens: 64,
      isPrefixCachingEnabled: true,
      reservedTokens: 0,
    });
    const sequenceOf = (id: number, ids: readonly number[]) => new Sequence(id, request(ids), 1, 0);
    // Eight blocks; of the nine of the second, seven are those of the first: two are free.
    const first = sequenceOf(1, IDS.slice(0, 32));
    compute(kv, first);
    const second = sequenceOf(2, [...IDS.slice(0, 28), ...IDS.slice(40, 48)]);
    compute(kv, second);
    const newcomer = sequenceOf(3, IDS.slice(30, 50));
    expect(kv.hasRoomFor(newcomer, [0, 0])).toBe(false);
    expect(kv.hasRoomFor(newcomer, [0, 0], [second])).toBe(false);
    expect(kv.hasRoomFor(sequenceOf(4, IDS.slice(30, 46)), [0, 0], [second])).toBe(true);
    expect(kv.hasRoomFor(newcomer, [0, 0], [first, second])).toBe(true);
    expect(kv.hasRoomFor(sequenceOf(5, IDS.slice(0, 48)), [0, 0], [first, second])).toBe(true);
  });
});

describe("sliding windows", () => {
  test("what no query to come sees is given back", () => {
    const kv = createManager();
    const sequence = prompt(1, 40);
    compute(kv, sequence);
    expect([kv.usedBlocksOf(0), kv.usedBlocksOf(1)]).toEqual([10, 2]);
    // The query at 40 sees 33 … 40.
    expect(sequence.blockTables[1]!.map((block) => block >= 0)).toEqual([
      ...new Array<boolean>(8).fill(false),
      true,
      true,
    ]);
    kv.release(sequence);
    expect([kv.usedBlocksOf(0), kv.usedBlocksOf(1)]).toEqual([0, 0]);
  });

  test("one that has given all its blocks back needs as much room as a new one", () => {
    const kv = createManager();
    const sequence = prompt(1, 40);
    compute(kv, sequence);
    kv.release(sequence);
    const room = (of: Sequence) => [0, 1, 2, 3, 4, 5].map((promised) => kv.hasRoomFor(of, [0, promised]));
    expect(room(sequence)).toEqual(room(prompt(2, 40)));
    expect(room(sequence)).toContain(true);
    expect(room(sequence)).toContain(false);
  });

  test("a prefix is a hit as long as its last window is there, whatever became of the blocks before", () => {
    const kv = createManager();
    const first = prompt(1, 40);
    compute(kv, first);
    kv.release(first);
    const longer = prompt(2, 60);
    kv.attachPrefix(longer);
    expect(longer.numComputedTokens).toBe(40);
    expect(longer.numGivenBack).toEqual([0, 8]);
    compute(kv, longer);
    expect(longer.numComputedTokens).toBe(60);
    kv.release(longer);
  });

  test("a prefix is a miss when a block of its last window is gone, though later ones are there", () => {
    const kv = createManager();
    const first = prompt(1, 60);
    compute(kv, first);
    kv.release(first);
    const shorter = prompt(2, 24);
    kv.attachPrefix(shorter);
    expect(shorter.numComputedTokens).toBe(0);
    kv.release(shorter);
    const same = prompt(3, 60);
    kv.attachPrefix(same);
    expect(same.numComputedTokens).toBe(56);
    kv.release(same);
  });
});

test("who only decodes is promised no more than the next block, windows or not", () => {
  const kv = createManager();
  const sequence = prompt(1, 40);
  compute(kv, sequence);
  expect(kv.promisedTo([sequence])).toEqual([0, 0]);
  sequence.append(1);
  expect(kv.promisedTo([sequence])).toEqual([1, 1]);
});
