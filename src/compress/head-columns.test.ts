import { expect, test } from "vitest";
import { reorderGram } from "./head-columns.js";

test("a Gram matrix gets the order of its columns", () => {
  const columns = Int32Array.of(2, 0, 3, 1, 4);
  const inputs = [1, 2, 3].map((token) => Float32Array.from({ length: 5 }, (_, col) => (token * (col + 2)) % 7));
  const gramOf = (rows: readonly Float32Array[]) =>
    Float32Array.from({ length: 25 }, (_, at) => {
      const [i, j] = [Math.floor(at / 5), at % 5];
      return j > i ? 0 : rows.reduce((sum, row) => sum + row[i]! * row[j]!, 0);
    });
  const gram = gramOf(inputs);
  reorderGram(gram, columns);
  const lower = gram.map((value, at) => (at % 5 > Math.floor(at / 5) ? 0 : value));
  expect(lower).toEqual(gramOf(inputs.map((row) => row.map((_, col) => row[columns[col]!]!))));
});
