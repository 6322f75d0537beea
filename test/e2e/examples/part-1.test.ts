/** The examples of the documentation, the first of three parts. */
import { expect, test } from "vitest";
import { exampleRuns, testExamples } from "../../helpers/page-examples.js";

test("most guides have examples that are run", () => {
  expect(exampleRuns.length).toBeGreaterThanOrEqual(8);
});

testExamples(0, 3);
