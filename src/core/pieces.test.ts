import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Pieces } from "./pieces.js";

test("pieces come back as they were, in one buffer", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 3 }), { maxLength: 40 }),
      fc.integer({ min: 1, max: 90 }),
      (some, times) => {
        const given = Array.from({ length: times }, () => some.map((bytes) => Buffer.from(bytes))).flat();
        const pieces = new Pieces();
        for (const piece of given) pieces.push(piece);
        const whole = Buffer.concat(given);
        expect(pieces.numBytes).toBe(whole.length);
        expect(pieces.take().equals(whole)).toBe(true);
        expect([pieces.numBytes, pieces.take().length]).toEqual([0, 0]);
      },
    ),
    { numRuns: 200 },
  );
});

test("a single piece comes as it is", () => {
  const piece = Buffer.from("a");
  const pieces = new Pieces();
  pieces.push(piece);
  expect(pieces.take()).toBe(piece);
});

test("many pieces of a byte each are held in little more memory than their bytes", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const pieces = new Pieces();
  collect();
  const before = process.memoryUsage();
  for (let i = 0; i < 300_000; i++) pieces.push(Buffer.of(i & 255));
  collect();
  const { heapUsed, external } = process.memoryUsage();
  // Separate pieces would take about 50 MB.
  expect(heapUsed + external - before.heapUsed - before.external).toBeLessThan(10e6);
  expect(pieces.take().length).toBe(300_000);
});
