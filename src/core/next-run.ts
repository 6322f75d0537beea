/** One run of a task for many callers. */

/**
 * Callers during a run share the next one: each gets a result of a run that began after its call, and at most one run
 * is
 * in progress.
 * @example const render = nextRun(() => registry.metrics());
 */
export function nextRun<T>(task: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    next ??= current.then(() => {
      next = undefined;
      const run = task();
      current = run.catch(() => {});
      return run;
    });
    return next;
  };
}
