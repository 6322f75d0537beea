import { expect, test, vi } from "vitest";
import { request } from "../../../test/helpers/engine-requests.js";
import { Sequence } from "../step/sequence.js";

// A block's key is its first token, whatever comes before: the same block behind another prefix collides.
vi.mock("../../text/block-hash.js", () => ({
  rootKey: () => 0,
  blockKey: (_: number, tokens: ArrayLike<number>, start: number) => tokens[start]!,
}));

const { KvManager } = await import("./kv-manager.js");

const IDS = Array.from({ length: 20 }, (_, i) => i + 1);

function setUp() {
  const kv = new KvManager({
    windows: [0],
    numBlocks: [16],
    blockSize: 4,
    maxStepTokens: 64,
    isPrefixCachingEnabled: true,
    reservedTokens: 0,
  });
  const asked: Int32Array[] = [];
  const published: unknown[] = [];
  kv.store = {
    blocksPerStep: 9,
    has: (_, tokens) => {
      asked.push(tokens);
      return false;
    },
    restore: () => false,
    onPublished: (node) => published.push(node),
  };
  const arrive = (ids: readonly number[]) => {
    const sequence = new Sequence(1, request(ids), 1, 0);
    kv.attachPrefix(sequence);
    const compute = (end: number) => {
      expect(kv.ensureCapacity(sequence, end)).toBe(true);
      sequence.numComputedTokens = end;
      kv.publishAndTrim(sequence);
    };
    return { sequence, compute };
  };
  // The second block of the others, as a first one.
  arrive(IDS.slice(4)).compute(4);
  const { sequence, compute } = arrive(IDS);
  return { kv, sequence, compute, asked, published };
}

test("a sequence whose block cannot be named computes on, and publishes nothing behind that block", () => {
  const { sequence, compute, published } = setUp();
  compute(8);
  expect([sequence.nodes.length, sequence.isPublishing]).toEqual([1, false]);
  compute(16);
  expect([sequence.nodes.length, published.length]).toEqual([1, 2]);
});

test("nobody waits for it any more, and it asks the store for nothing", () => {
  const { kv, sequence, compute, asked } = setUp();
  const other = new Sequence(2, request(IDS), 1, 0);
  expect(kv.shouldWaitForLeader(other)).toBe(true);
  compute(8);
  expect(kv.shouldWaitForLeader(other)).toBe(false);
  expect([kv.restore(sequence), asked]).toEqual([false, []]);
});

test("once it has given its blocks back it publishes as any other", () => {
  const { kv, sequence, compute } = setUp();
  compute(8);
  kv.release(sequence);
  expect(sequence.isPublishing).toBe(true);
});
