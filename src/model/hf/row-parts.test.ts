/** Rows of matrices that lie in a larger one. */
import { expect, it } from "vitest";
import { runsOf } from "./row-parts.js";

it("rows of a part are runs of the larger matrix's, as far as each group has them", () => {
  const keys = { numGroups: 3, groupRows: 10, offset: 6, rows: 2 };
  expect(runsOf([keys], 0, 6)).toEqual([
    { first: 6, count: 2, at: 0 },
    { first: 16, count: 2, at: 2 },
    { first: 26, count: 2, at: 4 },
  ]);
  expect(runsOf([keys], 3, 2)).toEqual([
    { first: 17, count: 1, at: 3 },
    { first: 26, count: 1, at: 4 },
  ]);
  const up = { numGroups: 1, groupRows: 8, offset: 4, rows: 4 };
  expect(runsOf([up], 1, 2)).toEqual([{ first: 5, count: 2, at: 1 }]);
});
