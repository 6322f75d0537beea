import { expect, it } from "vitest";
import type { PrefixNode } from "./prefix-index.js";
import { StateSnapshots } from "./state-snapshots.js";

const node = (key: number, isLive = true) => ({ key, isLive }) as PrefixNode;

it("slots of prefixes that are gone go first", () => {
  const [live, gone, next] = [node(1), node(2, false), node(3)];
  const snapshots = new StateSnapshots(10, 2);
  for (const each of [live, gone]) snapshots.keep(each, snapshots.take()!);
  snapshots.keep(next, snapshots.take()!);
  expect([live, gone, next].map((each) => snapshots.has(each))).toEqual([true, false, true]);
});

it("slots of prefixes go to the least recently used, and one that is read stays", () => {
  const [a, b, c, d] = [1, 2, 3, 4].map((key) => node(key)) as [PrefixNode, PrefixNode, PrefixNode, PrefixNode];
  const snapshots = new StateSnapshots(10, 2);
  for (const each of [a, b]) snapshots.keep(each, snapshots.take()!);
  const read = snapshots.pin(a);
  expect(snapshots.pin(a)).toBe(read);
  snapshots.unpin(read);
  snapshots.keep(c, snapshots.take()!);
  expect([a, b, c].map((each) => snapshots.has(each))).toEqual([true, false, true]);
  const written = snapshots.take()!;
  expect(snapshots.take()).toBeUndefined();
  snapshots.unpin(read);
  expect(snapshots.take()).toBe(read);
  snapshots.keep(d, written);
  snapshots.giveBack(read);
  expect(snapshots.take()).toBe(read);
  expect([a, b, c, d].map((each) => snapshots.has(each))).toEqual([false, false, false, true]);
});
