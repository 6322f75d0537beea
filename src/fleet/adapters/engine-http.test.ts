import { expect, test } from "vitest";
import { countOrNothing } from "./engine-http.js";

test("an engine's figure counts only where it is a positive whole number", () => {
  expect([countOrNothing("16"), countOrNothing(16)]).toEqual([16, 16]);
  // Blocks of 0 tokens would never reach a prompt's end.
  for (const wrong of ["0", 0, -16, "-1", 0.5, "1e400", 1e308, "NaN", "None", "", null, undefined, {}, [16]]) {
    expect(countOrNothing(wrong), String(wrong)).toBeUndefined();
  }
});
