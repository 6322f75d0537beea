/**
 * Runs before each test file of a mutation run: activates one mutant, ends endless ones, and stops at the first
 * failure.
 */
import fc from "fast-check";
import { afterEach, beforeEach, inject, vi } from "vitest";

const { active, maxReads, timeoutMs } = inject("mutation");
/** Mutants that the code reached; recorded in runs without an active mutant. */
const reached = new Set();
let numReads = 0;

globalThis.millraceMutant = (id) => {
  if (++numReads > maxReads) throw new Error("the mutant runs for ever");
  if (active === undefined) reached.add(id);
  return id === active;
};

// Only the failure counts: searching for its smallest example would take long.
fc.configureGlobal({ endOnFailure: true });
vi.setConfig({ testTimeout: timeoutMs, hookTimeout: timeoutMs });

let hasFailed = false;
beforeEach(({ skip }) => skip(hasFailed));
afterEach(({ task }) => {
  if (task.result?.state === "fail") hasFailed = true;
  task.file.meta.mutation = { numReads, reached: [...reached] };
});
