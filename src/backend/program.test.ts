/** The recorder's encoding, and the calls that must not compile. */
import { expect, it } from "vitest";
import type { BufferHandle, WeightHandle } from "./handles.js";
import { OP_NAMES, operandsIn } from "./ops.js";
import { CONCURRENT, HEADER_WORDS, Program } from "./program.js";

const buffer = (handle: number) => handle as BufferHandle;
const weight = 7 as WeightHandle;
const wordsOf = (program: Program) => [...program.words.subarray(0, program.numWords)];

it("writes an operation's opcode, flags, number of operands and operands in the table's order", () => {
  const program = new Program();
  program.record("linear", { numRows: 3, weight, x: buffer(2), accumulate: true, bias: buffer(4), out: buffer(1) });
  expect(wordsOf(program)).toEqual([OP_NAMES.indexOf("linear"), 0, 6, 1, 2, 7, 4, 3, 1]);
});

it("flags an operation that the next one does not depend on", () => {
  const program = new Program();
  program.record("add", { out: buffer(1), x: buffer(2), numRows: 3, width: 4 }, { concurrent: true });
  program.record("add", { out: buffer(1), x: buffer(2), numRows: 3, width: 4 }, { concurrent: false });
  expect([program.words[1], program.words[HEADER_WORDS + 4 + 1]]).toEqual([CONCURRENT, 0]);
});

it("writes 0 for an omitted operand", () => {
  const program = new Program();
  program.record("linear", { out: buffer(1), x: buffer(2), weight, numRows: 3 });
  expect(wordsOf(program).slice(HEADER_WORDS)).toEqual([1, 2, 7, 0, 3, 0]);
});

it("writes a name as its index in the list of codes", () => {
  const program = new Program();
  program.record("quantize", { out: buffer(1), x: buffer(2), numRows: 3, width: 256, format: "blocks256" });
  expect(wordsOf(program).slice(HEADER_WORDS)).toEqual([1, 2, 3, 256, 2]);
});

it("records programs of any length and clears them", () => {
  const program = new Program();
  for (let i = 0; i < 2000; i++) program.record("add", { out: buffer(i), x: buffer(i + 1), numRows: 1, width: i });
  const numWords = HEADER_WORDS + operandsIn("add").length;
  expect(program.numWords).toBe(2000 * numWords);
  expect(wordsOf(program).slice(-numWords)).toEqual([OP_NAMES.indexOf("add"), 0, 4, 1999, 2000, 1, 1999]);
  program.clear();
  expect(program.numWords).toBe(0);
});

it("compiles only with exactly the operation's operands", () => {
  const program = new Program();
  const added = { out: buffer(1), x: buffer(2), numRows: 3, width: 4 };
  const { width: _, ...withoutWidth } = added;
  // @ts-expect-error: an operand is missing
  program.record("add", withoutWidth);
  // @ts-expect-error: there is no such operand
  program.record("add", { out: buffer(1), x: buffer(2), numRows: 3, width: 4, height: 4 });
  // @ts-expect-error: a buffer is not a number
  program.record("add", { ...added, x: 2 });
  // @ts-expect-error: a buffer is not a weight
  program.record("pack", { out: buffer(1), byteOffset: 0, weight: buffer(2) });
  // @ts-expect-error: rows that are not quantised have no format
  program.record("quantize", { ...added, format: "f32" });
  // @ts-expect-error: there is no such operation
  expect(() => program.record("subtract", added)).toThrow(TypeError);
});
