import { expect, test } from "vitest";
import type { DeltaMixer } from "./model-description.js";
import { headOrder } from "./value-heads.js";

const mixer = (numHeads: number, numKeyHeads: number, isTiled: boolean): DeltaMixer => ({
  kind: "delta",
  numHeads,
  numKeyHeads,
  headDim: 8,
  valueDim: 8,
  numTaps: 4,
  isTiled,
});

test("the wanted order's heads share the key heads that they shared", () => {
  // Heads of key head 0 are 0 to 2, or every second one.
  expect(headOrder(mixer(6, 2, false), true)).toEqual([0, 3, 1, 4, 2, 5]);
  expect(headOrder(mixer(6, 2, true), false)).toEqual([0, 2, 4, 1, 3, 5]);
});

test("orders that are the same need no moving", () => {
  expect([mixer(6, 2, true), mixer(4, 4, false), mixer(4, 1, false)].map((each) => headOrder(each, true))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
