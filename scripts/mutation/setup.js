/** Runs before each test file of a mutation run: wakes one mutant, ends one that runs for ever, and gives up at the first failure. */
import fc from "fast-check";
import { afterEach, beforeEach, inject, vi } from "vitest";

const { active, maxReads, timeoutMs } = inject("mutation");
/** How often the code has come by each mutant. */
const reads = [];
let numReads = 0;

globalThis.millraceMutant = (id) => {
  reads[id] = (reads[id] ?? 0) + 1;
  if (++numReads > maxReads) throw new Error("the mutant runs for ever");
  return id === active;
};

// A failure is all that is asked for: the smallest example of it would take long to find.
fc.configureGlobal({ endOnFailure: true });
vi.setConfig({ testTimeout: timeoutMs, hookTimeout: timeoutMs });

let hasFailed = false;
beforeEach(({ skip }) => skip(hasFailed));
afterEach(({ task }) => {
  if (task.result?.state === "fail") hasFailed = true;
  task.file.meta.mutation = { numReads, reached: Object.keys(reads).map(Number) };
});
