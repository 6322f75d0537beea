import { expect, test, vi } from "vitest";

// Every block gets the same key, so that each lookup meets a collision.
vi.mock("../../text/block-hash.js", () => ({ rootKey: () => 1, blockKey: () => 42 }));

const { PrefixIndex } = await import("./prefix-index.js");

const FIRST = Int32Array.of(1, 2, 3, 4);
const OTHER = Int32Array.of(5, 6, 7, 8);

test("a hash collision is a miss, never a wrong hit", () => {
  const index = new PrefixIndex([0], 4);
  const root = index.root("");
  const node = index.publish(root, FIRST, 0, [7]);
  expect(index.find(root, 42, FIRST, 0)).toBe(node);
  expect(index.find(root, 42, OTHER, 0)).toBeUndefined();
  expect(index.publish(root, OTHER, 0, [8])).toBeUndefined();
  expect(index.find(node!, 42, FIRST, 0)).toBeUndefined();
});

test("a block that differs in one token, or has the same tokens after another prefix, is another block", () => {
  const index = new PrefixIndex([0], 4);
  const root = index.root("");
  const node = index.publish(root, FIRST, 0, [7])!;
  for (let i = 0; i < 4; i++) expect(index.find(root, 42, FIRST.with(i, 9), 0)).toBeUndefined();
  expect(index.publish(node, FIRST, 0, [8])).toBeUndefined();
});

test("a salt sees only its own tree", () => {
  const index = new PrefixIndex([0], 4);
  index.publish(index.root("a"), FIRST, 0, [7]);
  expect(index.find(index.root("b"), 42, FIRST, 0)).toBeUndefined();
});

test("a node keeps its place while a block or another node hangs from it", () => {
  const index = new PrefixIndex([0, 1], 4);
  const root = index.root("");
  const node = index.publish(root, FIRST, 0, [7, 9])!;
  index.forget(1, 9);
  expect(index.find(root, 42, FIRST, 0)).toBe(node);
  expect([...node.blocks]).toEqual([7, -1]);
  expect(index.publish(root, FIRST, 0, [3, 4])).toBe(node);
  expect([...node.blocks]).toEqual([7, 4]);
});

test("nothing is published below a forgotten node", () => {
  const index = new PrefixIndex([0, 1], 4);
  const node = index.publish(index.root(""), FIRST, 0, [7, 9])!;
  index.forget(0, 7);
  index.forget(1, 9);
  expect(index.numNodes).toBe(0);
  expect(index.publish(node, OTHER, 0, [1, 2])).toBeUndefined();
});

test("a salt without blocks leaves nothing behind", () => {
  const index = new PrefixIndex([0], 4);
  for (const salt of ["a", "b"]) {
    expect(index.root(salt).key).toBe(index.root(salt).key);
    expect(index.numRoots).toBe(0);
    index.publish(index.root(salt), FIRST, 0, [7]);
    expect(index.numRoots).toBe(1);
    expect(index.root(salt)).toBe(index.root(salt));
    index.forget(0, 7);
    expect(index.numRoots).toBe(0);
  }
});
