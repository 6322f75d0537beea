/** Signals of long commands: the first asks to finish, the second ends at once. */
import { setMaxListeners } from "node:events";

/** A terminal sends Ctrl-C to npm and to the command, and npm repeats it to the command within this time. */
const REPEAT_MS = 200;

/** @returns a handler that ignores an immediate repeat of the same signal */
export function withoutRepeats(
  handle: (name: NodeJS.Signals) => void,
  now: () => number = () => performance.now(),
): (name: NodeJS.Signals) => void {
  let last: NodeJS.Signals | undefined;
  let atMs = 0;
  return (name) => {
    const isRepeat = name === last && now() - atMs < REPEAT_MS;
    if (isRepeat) return;
    last = name;
    atMs = now();
    handle(name);
  };
}

const EXIT_CODES: Readonly<Partial<Record<NodeJS.Signals, number>>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** Calls `stop` with the exit code of Ctrl-C, SIGTERM or a closed terminal. @returns a function that ends the watch */
export function onStopSignals(stop: (exitCode: number) => void): () => void {
  const onSignal = withoutRepeats((name) => stop(EXIT_CODES[name]!));
  const names = Object.keys(EXIT_CODES) as NodeJS.Signals[];
  for (const name of names) process.on(name, onSignal);
  return () => {
    for (const name of names) process.off(name, onSignal);
  };
}

/**
 * For long commands: the first Ctrl-C, SIGTERM or closed terminal lets the command save or remove its work, the second
 * ends the process at once. After a signal, the exit code is 130, 143 or 129, without an error.
 * @param outcome the first signal's effect, in words
 */
export async function untilStopped(
  run: (signal: AbortSignal) => Promise<void>,
  outcome = "the same command resumes from here",
): Promise<void> {
  const stopping = new AbortController();
  // No limit: each answer in progress listens to the signal.
  setMaxListeners(0, stopping.signal);
  const stopListening = onStopSignals((exitCode) => {
    if (stopping.signal.aborted) process.exit(exitCode);
    process.exitCode = exitCode;
    process.stderr.write(`\nstopping; ${outcome}\n`);
    stopping.abort();
  });
  try {
    await run(stopping.signal);
  } catch (thrown) {
    if (!stopping.signal.aborted) throw thrown;
  } finally {
    stopListening();
  }
}
