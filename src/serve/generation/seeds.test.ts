import { expect, test } from "vitest";
import { seedOf, seedsFrom } from "./seeds.js";

test("a server seed gives the same row of seeds at every start, and another seed another row", () => {
  const row = (serverSeed: bigint) => {
    const draw = seedsFrom(serverSeed);
    return Array.from({ length: 5 }, () => seedOf(undefined, draw));
  };
  expect(row(7n)).toEqual(row(7n));
  expect(new Set([...row(7n), ...row(8n)]).size).toBe(10);
});

test("a client's own seed is taken as it is and draws nothing", () => {
  const draw = seedsFrom(7n);
  expect(seedOf(42, draw)).toBe(42n);
  expect(seedOf(-1, draw)).toBe((1n << 64n) - 1n);
  expect(draw()).toBe(seedsFrom(7n)());
});
