/** Runs test files against one mutant after another, in one long-lived process. */
import { fileURLToPath } from "node:url";
import { createVitest, ForksPoolWorker } from "vitest/node";
import { instrument } from "./mutants.js";

/** Time limit of a test, as a multiple of its file's slowest test without a mutant, but at least a minimum. */
const PATIENCE = 5;
const LEAST_PATIENCE_MS = 1_000;
/**
 * After the limit the test fails. If it cannot, because a loop blocks the process, the process is ended after this
 * time.
 */
const END_AFTER_MS = 10_000;

/**
 * vitest starts a process for every run, which takes longer than most tests. This process continues: vitest's start and
 * stop messages are answered for it, and vitest clears its modules before each test file, so nothing remains from the
 * previous run.
 */
class LastingWorker extends ForksPoolWorker {
  static process;

  async start() {
    this.isNew = LastingWorker.process === undefined;
    if (this.isNew) {
      await super.start();
      LastingWorker.process = this._fork;
    } else this._fork = LastingWorker.process;
    this._fork.once("exit", () => {
      LastingWorker.process = undefined;
    });
  }

  send(message) {
    const answer = { start: this.isNew ? undefined : "started", stop: "stopped" }[message.type];
    if (answer === undefined) super.send(message);
    else this._fork.emit("message", { type: answer, __vitest_worker_response__: true });
  }

  async stop() {
    for (const event of ["message", "error", "exit"]) this._fork.removeAllListeners(event);
    if (this._fork.exitCode !== null || this._fork.signalCode !== null) LastingWorker.process = undefined;
  }

  static end() {
    LastingWorker.process?.kill("SIGKILL");
    LastingWorker.process = undefined;
  }
}

const lastingPool = { name: "lasting", createPoolWorker: (options) => new LastingWorker(options) };

/** @param tests paths of the test files that judge the mutants of `file` */
export async function openSession({ root, file, source, mutants, tests }) {
  const plugin = {
    name: "mutants",
    enforce: "pre",
    transform: (_, id) => (id === file ? instrument(source, mutants) : undefined),
  };
  const vitest = await createVitest(
    "test",
    {
      root,
      config: false,
      watch: false,
      reporters: [{}],
      include: tests,
      pool: lastingPool,
      maxWorkers: 1,
      setupFiles: [fileURLToPath(new URL("setup.js", import.meta.url))],
    },
    { plugins: [plugin] },
  );
  const specifications = await vitest.globTestSpecifications();

  /** @returns the result of one test file */
  async function run(specification, order) {
    vitest.getRootProject().provide("mutation", order);
    const watchdog = setTimeout(() => LastingWorker.end(), order.endAfterMs);
    const startMs = performance.now();
    try {
      const { testModules, unhandledErrors } = await vitest.runTestSpecifications([specification]);
      const module = testModules.find(({ moduleId }) => moduleId === specification.moduleId);
      const tests = [...module.children.allTests()];
      const errors = [...module.errors(), ...tests.flatMap((test) => test.result().errors ?? []), ...unhandledErrors];
      const failed = tests.find((test) => test.result().state === "failed");
      return {
        isOk: module.ok() && errors.length === 0,
        isEndless: errors.some(({ message }) => /runs for ever|timed out in|exited unexpectedly/.test(message)),
        by: failed?.fullName ?? errors[0]?.message,
        ms: performance.now() - startMs,
        slowestMs: Math.max(0, ...tests.map((test) => test.diagnostic()?.duration ?? 0)),
        ...module.meta().mutation,
      };
    } finally {
      clearTimeout(watchdog);
    }
  }

  const endless = { maxReads: Number.POSITIVE_INFINITY, timeoutMs: 60_000, endAfterMs: 600_000 };
  const judges = [];
  for (const specification of specifications) {
    // The first run takes longer than later ones.
    await run(specification, endless);
    const clean = await run(specification, endless);
    if (!clean.isOk) throw new Error(`${specification.moduleId} fails without any mutant: ${clean.by}`);
    judges.push({ specification, ...clean });
  }
  judges.sort((a, b) => a.ms - b.ms);

  return {
    /** @returns "killed", "timed out", "survived" or "not covered", and the test that noticed */
    async judge({ id }) {
      const asked = judges.filter(({ reached }) => reached.includes(id));
      for (const { specification, numReads, ms, slowestMs } of asked) {
        const order = {
          active: id,
          maxReads: 1e5 + PATIENCE * numReads,
          timeoutMs: Math.max(LEAST_PATIENCE_MS, PATIENCE * slowestMs),
          endAfterMs: END_AFTER_MS + PATIENCE * ms,
        };
        const { isOk, isEndless, by } = await run(specification, order);
        if (!isOk) return { outcome: isEndless ? "timed out" : "killed", by };
      }
      return { outcome: asked.length === 0 ? "not covered" : "survived" };
    },

    async close() {
      LastingWorker.end();
      await vitest.close();
    },
  };
}
