/**
 * Runs before each test file of a mutation run: wakes one mutant, ends one that runs for ever, and gives up at the
 * first failure.
 */
import fc from "fast-check";
import { afterEach, beforeEach, inject, vi } from "vitest";

const { active, maxReads, timeoutMs } = inject("mutation");
/** Mutants that the code came by: asked for in runs in which none is awake. */
const reached = new Set();
let numReads = 0;

globalThis.millraceMutant = (id) => {
  if (++numReads > maxReads) throw new Error("the mutant runs for ever");
  if (active === undefined) reached.add(id);
  return id === active;
};

// A failure is all that is asked for: the smallest example of it would take long to find.
fc.configureGlobal({ endOnFailure: true });
vi.setConfig({ testTimeout: timeoutMs, hookTimeout: timeoutMs });

let hasFailed = false;
beforeEach(({ skip }) => skip(hasFailed));
afterEach(({ task }) => {
  if (task.result?.state === "fail") hasFailed = true;
  task.file.meta.mutation = { numReads, reached: [...reached] };
});
