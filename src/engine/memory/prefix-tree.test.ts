/** How long nodes of the prefix index live, with real block keys. */
import { expect, test } from "vitest";
import { PrefixIndex, type PrefixNode } from "./prefix-index.js";

const BLOCK_SIZE = 2;
const TEXT = Int32Array.from({ length: 12 }, (_, i) => i);
const OTHER_TEXT = TEXT.map((token) => token + 100);

/** Publishes the first blocks of a text, each in one of `blockIds`. */
function publish(index: PrefixIndex, text: Int32Array, blockIds: readonly number[], salt = ""): PrefixNode[] {
  const nodes: PrefixNode[] = [];
  for (const [i, blockId] of blockIds.entries()) {
    nodes.push(index.publish(nodes.at(-1) ?? index.root(salt), text, i * BLOCK_SIZE, [blockId])!);
  }
  return nodes;
}

test("a node whose block is gone stays as long as one behind it has a block", () => {
  const index = new PrefixIndex([0], BLOCK_SIZE);
  const [first, second, third] = publish(index, TEXT, [1, 2, 3]);
  index.forget(0, 1);
  index.forget(0, 2);
  expect(index.numNodes).toBe(3);
  expect(index.find(index.root(""), first!.key, TEXT, 0)).toBe(first);
  expect(publish(index, TEXT, [4, 5, 6])).toEqual([first, second, third]);
  expect([...first!.blocks, ...second!.blocks, ...third!.blocks]).toEqual([4, 5, 3]);
});

test("with the last block of a chain all of its nodes go, and the salt", () => {
  const index = new PrefixIndex([0], BLOCK_SIZE);
  const nodes = publish(index, TEXT, [1, 2, 3]);
  for (const blockId of [1, 2, 3]) index.forget(0, blockId);
  expect([index.numNodes, index.numRoots]).toEqual([0, 0]);
  expect(nodes.map(({ isLive }) => isLive)).toEqual([false, false, false]);
});

test("a salt stays while another of its texts has a block, however many blocks of a text go", () => {
  const index = new PrefixIndex([0], BLOCK_SIZE);
  publish(index, TEXT, [1, 2, 3]);
  publish(index, OTHER_TEXT, [4, 5]);
  const root = index.root("");
  index.forget(0, 3);
  expect(index.root("")).toBe(root);
  index.forget(0, 1);
  index.forget(0, 2);
  expect([index.root(""), index.numNodes]).toEqual([root, 2]);
  index.forget(0, 5);
  index.forget(0, 4);
  expect([index.numRoots, index.numNodes]).toEqual([0, 0]);
});

test("a block that is overwritten again, with nothing published in between, is no longer the prefix it was", () => {
  const index = new PrefixIndex([0], BLOCK_SIZE);
  publish(index, TEXT, [1]);
  index.forget(0, 1);
  const [node] = publish(index, TEXT, [2]);
  index.forget(0, 1);
  expect(index.find(index.root(""), node!.key, TEXT, 0)).toBe(node);
});

test("changes are told once: keys with the groups that hold them, none where the node is gone", () => {
  const index = new PrefixIndex([0, 1], BLOCK_SIZE);
  const node = index.publish(index.root(""), TEXT, 0, [1, 2])!;
  expect([...index.takeChanges()]).toEqual([node.key, 0b11]);
  expect(index.takeChanges()).toHaveLength(0);
  index.forget(0, 1);
  expect([...index.takeChanges()]).toEqual([node.key, 0b10]);
  index.forget(1, 2);
  expect([...index.takeChanges()]).toEqual([node.key, 0]);
});
