import { expect, test } from "vitest";
import type { TensorSource } from "../../backend/tensor-source.js";
import { bytesOf, type Storage } from "./tensors.js";

/** A source of one vector and one single-row matrix, both with these values. */
function sourceOf(...numbers: readonly number[]): TensorSource {
  const values = Float32Array.from(numbers);
  const matrix = () => ({
    type: "F32" as const,
    convert: (target: ArrayBuffer) => new Float32Array(target).set(values),
  });
  return { has: () => true, values: () => values, matrix } as unknown as TensorSource;
}

test.each([
  [[2] as const],
  [[1, 2] as const],
])("a value beyond float16's range is refused with its tensor's name: %s", (shape) => {
  const encode = (type: "F16" | "BF16" | "F32", ...values: readonly number[]) => [
    ...bytesOf(sourceOf(...values), { name: "blk.0.ffn_up.weight", shape }, type),
  ];
  for (const large of [65_520, -1e30]) {
    expect(() => encode("F16", 1, large)).toThrow(/values of blk\.0\.ffn_up\.weight within float16's range/);
    expect(encode("BF16", 1, large)[0]).toHaveLength(4);
    expect(encode("F32", 1, large)[0]).toHaveLength(8);
  }
  // Infinite values of the model stay infinite.
  expect(encode("F16", 65_519, Number.POSITIVE_INFINITY)[0]).toEqual(Uint8Array.of(0xff, 0x7b, 0, 0x7c));
});

test("blocks are made of values within float16's range alone", () => {
  const storage: Storage = {
    name: "Q8_0",
    fileType: 7,
    typeOf: () => "Q8_0",
    encode: (_name, _type, values) => Uint8Array.of(values.length),
  };
  const encode = (...values: readonly number[]) => [
    ...bytesOf(sourceOf(...values), { name: "blk.0.ffn_up.weight", shape: [1, values.length] }, "Q8_0", storage),
  ];
  expect(encode(65_519, -1)).toEqual([Uint8Array.of(2)]);
  for (const large of [65_520, -1e30, Number.NaN, Number.NEGATIVE_INFINITY]) {
    expect(() => encode(1, large)).toThrow(/finite values below 65520 in blk\.0\.ffn_up\.weight/);
  }
});
