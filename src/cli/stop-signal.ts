/** For commands that run long and go on where they were: the first Ctrl-C or SIGTERM lets them keep what they have, the second ends at once. */
import { setMaxListeners } from "node:events";

/** Runs until done or told to stop; then exit code 130 or 143, and no error. */
export async function untilStopped(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stopping = new AbortController();
  // Every answer under way listens.
  setMaxListeners(0, stopping.signal);
  const onSignal = (name: NodeJS.Signals): void => {
    const exitCode = name === "SIGINT" ? 130 : 143;
    if (stopping.signal.aborted) process.exit(exitCode);
    process.exitCode = exitCode;
    process.stderr.write("\nstopping; the same command goes on from here\n");
    stopping.abort();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    await run(stopping.signal);
  } catch (thrown) {
    if (!stopping.signal.aborted) throw thrown;
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}
