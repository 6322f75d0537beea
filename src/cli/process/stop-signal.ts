/** How commands are told to stop: once to finish, twice to end at once. */
import { setMaxListeners } from "node:events";

/** A terminal sends Ctrl-C to npm and to the command; npm then hands it on to the command, which gets it twice. */
const REPEAT_MS = 200;

/** @returns the handler of a signal, which leaves out the same signal where it comes again so soon */
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

/**
 * For commands that run long and go on where they were: the first Ctrl-C, SIGTERM or closed terminal lets them keep what they have, the second ends at once.
 * Runs until done or told to stop; then exit code 130, 143 or 129, and no error.
 */
export async function untilStopped(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stopping = new AbortController();
  // Every answer under way listens.
  setMaxListeners(0, stopping.signal);
  const onSignal = withoutRepeats((name) => {
    const exitCode = EXIT_CODES[name]!;
    if (stopping.signal.aborted) process.exit(exitCode);
    process.exitCode = exitCode;
    process.stderr.write("\nstopping; the same command goes on from here\n");
    stopping.abort();
  });
  const names = Object.keys(EXIT_CODES) as NodeJS.Signals[];
  for (const name of names) process.on(name, onSignal);
  try {
    await run(stopping.signal);
  } catch (thrown) {
    if (!stopping.signal.aborted) throw thrown;
  } finally {
    for (const name of names) process.off(name, onSignal);
  }
}
