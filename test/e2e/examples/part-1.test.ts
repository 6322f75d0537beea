/** The examples of the documentation, one part of them. */
import { expect, test } from "vitest";
import { exampleRuns, testExamples } from "../../helpers/page-examples.js";

test("most guides have examples that are run", () => {
  expect(exampleRuns.length).toBeGreaterThanOrEqual(8);
});

testExamples(import.meta.url);
