import { decode, encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { expect, test } from "vitest";
import { expectBoundedMessage } from "./msgpack-bounds.js";

const value = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, false, 0.5),
    fc.constantFrom(31, 32, 255, 256, 65_536).map((size) => "x".repeat(size)),
    fc.constantFrom(255, 256, 65_536).map((size) => new Uint8Array(size)),
    fc.integer(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
    fc.string(),
    fc.uint8Array(),
    fc.array(tie("value")),
    fc.array(fc.nat(255), { minLength: 16, maxLength: 40 }),
    fc.dictionary(fc.string(), tie("value")),
  ),
})).value;

test("whole messages of every kind pass, and cut or longer ones do not", () => {
  fc.assert(
    fc.property(value, fc.nat(), (each, cut) => {
      const bytes = Buffer.from(encode(each, { useBigInt64: true }));
      expectBoundedMessage(bytes);
      expect(() => expectBoundedMessage(bytes.subarray(0, cut % bytes.length))).toThrow(RangeError);
      expect(() => expectBoundedMessage(Buffer.concat([bytes, Buffer.of(0)]))).toThrow(RangeError);
    }),
  );
});

test.each<[string, Buffer]>([
  // decode reserves 240 MB for each of these headers, and ends the process.
  ["nested lists that are not there", Buffer.from("dd01c9c380".repeat(20), "hex")],
  ["a map that is not there", Buffer.from("dfffffffff", "hex")],
  ["too many levels", Buffer.concat([Buffer.alloc(200_000, 0x91), Buffer.of(0)])],
  ["too many values", Buffer.concat([Buffer.from("dd00200000", "hex"), Buffer.alloc(2 ** 21, 0x80)])],
  ["a text that is not there", Buffer.from("dbffffffff", "hex")],
  ["an extension type", Buffer.from("d4ff00", "hex")],
  ["no value", Buffer.of(0xc1)],
])("a hostile message is refused before it is decoded: %s", (_, bytes) => {
  const before = process.memoryUsage();
  expect(() => {
    expectBoundedMessage(bytes);
    decode(bytes);
  }).toThrow(RangeError);
  const after = process.memoryUsage();
  expect(after.heapTotal + after.external - before.heapTotal - before.external).toBeLessThan(64 * 2 ** 20);
});
