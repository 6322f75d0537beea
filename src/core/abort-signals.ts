/** Waits and time limits that an abort signal can end early. */

/** Resolves after `ms`, or as soon as `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

/** If a timer fires this late, the process was blocked and may have an unread answer. */
const LATE_MS = 250;

/** Runs a task with a signal that aborts after `ms`, or together with `signal`. */
export async function within<T>(
  ms: number,
  signal: AbortSignal,
  task: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limited = new AbortController();
  const abort = (): void => limited.abort();
  const dueMs = performance.now() + ms;
  let timer = setTimeout(() => {
    if (performance.now() - dueMs > LATE_MS) timer = setTimeout(abort, ms);
    else abort();
  }, ms);
  signal.addEventListener("abort", abort);
  if (signal.aborted) abort();
  try {
    return await task(limited.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** A controller that aborts together with any of `signals`; `dispose` removes its listeners from them. */
export function eitherOf(...signals: readonly AbortSignal[]): AbortController & { dispose(): void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  for (const signal of signals) {
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
  }
  return Object.assign(controller, {
    dispose() {
      for (const signal of signals) signal.removeEventListener("abort", abort);
    },
  });
}
