import fc from "fast-check";
import { expect, test } from "vitest";
import { blockKey, rootKey } from "../../../text/block-hash.js";
import { VllmBlocks } from "./vllm-blocks.js";

const SIZE = 4;

interface Block {
  readonly hash: bigint;
  readonly parent: bigint | null;
  readonly tokens: readonly number[];
  readonly salt: string;
  readonly key: number;
}

/** The blocks of a prompt as vLLM names them. The hashes here only have to differ. */
function chain(prompt: readonly number[], salt: string): Block[] {
  const blocks: Block[] = [];
  let key = rootKey(salt);
  let parent: bigint | null = null;
  prompt.forEach((_, i) => {
    const tokens = Array.from({ length: SIZE }, (__, j) => prompt[i]! * SIZE + j);
    key = blockKey(key, tokens, 0, SIZE);
    const hash = BigInt(key) + (1n << 60n);
    blocks.push({ hash, parent, tokens, salt: i === 0 ? salt : "", key });
    parent = hash;
  });
  return blocks;
}

function storedEvent(blocks: readonly Block[], more: object = {}): object {
  return {
    type: "BlockStored",
    block_hashes: blocks.map(({ hash }) => hash),
    parent_block_hash: blocks[0]!.parent,
    token_ids: blocks.flatMap(({ tokens }) => tokens),
    block_size: SIZE,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: blocks.map(({ salt }) => (salt === "" ? null : [salt])),
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
    ...more,
  };
}

const removedEvent = ({ hash }: Block, more: object = {}) => ({
  type: "BlockRemoved",
  block_hashes: [hash],
  medium: "GPU",
  group_idx: 0,
  ...more,
});

const keysIn = (blocks: VllmBlocks): number[] => (blocks.blocks?.snapshot() ?? []).filter((_, i) => i % 2 === 0).sort();

const prompt = fc.array(fc.nat(2), { minLength: 1, maxLength: 4 });
const salt = fc.constantFrom("", "tenant");

test("after any history of stored, copied and removed blocks exactly those with a copy left are held, under our keys", () => {
  const step = fc.tuple(fc.constantFrom("store", "remove", "clear"), prompt, salt, fc.nat(3));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const told = new VllmBlocks();
      const copies = new Map<number, number>();
      for (const [what, tokens, own, which] of steps) {
        const blocks = chain(tokens, own);
        if (what === "store") {
          // vLLM stores the part of a prompt that is not cached yet, so its parent is in the cache.
          const found = blocks.findIndex(({ key }) => !copies.has(key));
          const fresh = blocks.slice(found === -1 ? blocks.length - 1 : found);
          told.apply([1, [storedEvent(fresh)], 0]);
          for (const { key } of fresh) copies.set(key, (copies.get(key) ?? 0) + 1);
        } else if (what === "remove") {
          const block = blocks[which % blocks.length]!;
          told.apply([1, [removedEvent(block)], 0]);
          const count = (copies.get(block.key) ?? 0) - 1;
          if (count > 0) copies.set(block.key, count);
          else copies.delete(block.key);
        } else {
          told.apply([1, [{ type: "AllBlocksCleared" }], 0]);
          copies.clear();
        }
        // A block whose parent was removed before the block was stored has no key: vLLM would not find it either.
        expect(keysIn(told).every((key) => copies.has(key))).toBe(true);
        for (const block of blocks) {
          const isWhole = blocks.slice(0, blocks.indexOf(block) + 1).every(({ key }) => copies.has(key));
          if (isWhole) expect(keysIn(told)).toContain(block.key);
        }
      }
    }),
  );
});

test("blocks of adapters, images and other memories are not held", () => {
  const told = new VllmBlocks();
  const [first, second] = chain([1, 2], "");
  told.apply([1, [storedEvent([first!], { lora_name: "sql" })]]);
  told.apply([1, [storedEvent([first!], { medium: "CPU" })]]);
  told.apply([1, [storedEvent([first!], { extra_keys: [[["image", 0]]] })]]);
  expect(keysIn(told)).toEqual([]);
  told.apply([1, [storedEvent([first!])]]);
  told.apply([1, [storedEvent([second!], { extra_keys: [[["image", 4]]] })]]);
  told.apply([1, [removedEvent(first!, { medium: "CPU" })]]);
  expect(keysIn(told)).toEqual([first!.key]);
});

test("groups with windows are kept apart", () => {
  const told = new VllmBlocks();
  const blocks = chain([1, 2, 3], "");
  told.apply([1, [storedEvent(blocks)]]);
  told.apply([1, [storedEvent(blocks, { group_idx: 1, kv_cache_spec_sliding_window: SIZE })]]);
  const keys = blocks.map(({ key }) => key);
  expect(told.blocks!.numUsable(keys, () => false)).toBe(3);
  told.apply([1, [removedEvent(blocks[0]!, { group_idx: 1 })]]);
  expect(told.blocks!.numUsable(keys, () => false)).toBe(3);
  told.apply([1, [removedEvent(blocks[0]!)]]);
  expect(told.blocks!.numUsable(keys, () => false)).toBe(0);
});

test("blocks whose tokens and hashes do not go together, or of another size, are left out", () => {
  const told = new VllmBlocks();
  const [first, second] = chain([1, 2], "");
  told.apply([1, [storedEvent([first!])]]);
  told.apply([1, [storedEvent([second!], { token_ids: [1, 2, 3] })]]);
  told.apply([1, [storedEvent([second!], { token_ids: Array(8).fill(1), block_size: 8, group_idx: 1 })]]);
  expect(keysIn(told)).toEqual([first!.key]);
});

test("a group that changes its window is a damaged report", () => {
  const told = new VllmBlocks();
  const blocks = chain([1], "");
  told.apply([1, [storedEvent(blocks)]]);
  const other = [1, [storedEvent(blocks, { kv_cache_spec_sliding_window: SIZE })]];
  expect(() => told.apply(other)).toThrow("expected group 0 to keep its window of 0, got 4");
});

test.each([
  ["no batch", 5],
  ["an unknown event", [1, [{ type: "BlockMoved" }]]],
  ["blocks of no tokens", [1, [storedEvent(chain([1], ""), { token_ids: [], block_size: 0 })]]],
  ["a hash too long", [1, [{ ...storedEvent(chain([1], "")), block_hashes: [new Uint8Array(65)] }]]],
  ["events as lists, of older versions", [1, [["BlockStored", [1], null, [1, 2, 3, 4], SIZE, null]]]],
  ["a group out of range", [1, [storedEvent(chain([1], ""), { group_idx: 31 })]]],
])("a damaged report throws: %s", (_, message) => {
  expect(() => new VllmBlocks().apply(message)).toThrow();
});

test("a hash that is told again with other tokens takes no more room", () => {
  const told = new VllmBlocks();
  for (let i = 0; i < 50; i++) {
    const [block] = chain([i], "");
    told.apply([1, [storedEvent([{ ...block!, hash: 7n }])]]);
  }
  expect(keysIn(told)).toEqual([chain([0], "")[0]!.key]);
});
