/**
 * A vitest reporter that writes counts and every skipped test with its reason to MILLRACE_TEST_SUMMARY; scripts/test.js
 * prints them last.
 */
import { writeFileSync } from "node:fs";

/**
 * vitest stores the reason of `ctx.skip("reason")` as the result's note; `test.skipIf` has none, so the test's name
 * must state it.
 */
function skippedRecord(testCase, testModule) {
  const { note } = testCase.result();
  return { name: `${testModule.relativeModuleId}: ${testCase.fullName}`, reason: note ?? "condition in the test file" };
}

// biome-ignore lint/style/noDefaultExport: vitest loads a reporter by its default export
export default class SummaryReporter {
  onTestRunEnd(testModules, unhandledErrors) {
    const summary = { numPassed: 0, numFailed: unhandledErrors.length, skipped: [] };
    for (const testModule of testModules) {
      let numTests = 0;
      for (const testCase of testModule.children.allTests()) {
        numTests += 1;
        const { state } = testCase.result();
        if (state === "passed") summary.numPassed += 1;
        else if (state === "failed") summary.numFailed += 1;
        else summary.skipped.push(skippedRecord(testCase, testModule));
      }
      // A file that fails to load has no tests, and a hook can fail where every test passed.
      if (testModule.errors().length > 0) summary.numFailed += 1;
      else if (numTests === 0)
        summary.skipped.push({ name: testModule.relativeModuleId, reason: "no tests in the file" });
    }
    writeFileSync(process.env.MILLRACE_TEST_SUMMARY, JSON.stringify(summary));
  }
}
