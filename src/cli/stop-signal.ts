/** For commands that run long and go on where they were: the first Ctrl-C, SIGTERM or closed terminal lets them keep what they have, the second ends at once. */
import { setMaxListeners } from "node:events";

const EXIT_CODES: Readonly<Partial<Record<NodeJS.Signals, number>>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** Runs until done or told to stop; then exit code 130, 143 or 129, and no error. */
export async function untilStopped(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stopping = new AbortController();
  // Every answer under way listens.
  setMaxListeners(0, stopping.signal);
  const onSignal = (name: NodeJS.Signals): void => {
    const exitCode = EXIT_CODES[name]!;
    if (stopping.signal.aborted) process.exit(exitCode);
    process.exitCode = exitCode;
    process.stderr.write("\nstopping; the same command goes on from here\n");
    stopping.abort();
  };
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
