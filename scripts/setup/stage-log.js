/** Progress of set-up stages on stderr: a line that rewrites itself on a terminal, and occasional lines elsewhere. */

const QUIET_MS = 5_000;

/** @returns "0.4 s", "2 min 05 s" */
export function formatElapsed(elapsedMs) {
  const seconds = elapsedMs / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
}

/**
 * @example const stage = startStage("kernels"); stage.update("3 of 20 files"); stage.done("compiled");
 */
export function startStage(name, stream = process.stderr) {
  const startMs = Date.now();
  let lastWriteMs = startMs;
  const label = name.padEnd(13);
  const rewrite = stream.isTTY ? "\r\u001b[2K" : "";
  if (!stream.isTTY) stream.write(`  ${label} …\n`);
  return {
    update(text) {
      const nowMs = Date.now();
      if (!stream.isTTY && nowMs - lastWriteMs < QUIET_MS) return;
      lastWriteMs = nowMs;
      stream.write(`${rewrite}  ${label} ${text} (${formatElapsed(nowMs - startMs)})${stream.isTTY ? "" : "\n"}`);
    },
    done(text) {
      stream.write(`${rewrite}✓ ${label} ${text} (${formatElapsed(Date.now() - startMs)})\n`);
    },
    fail(text) {
      stream.write(`${rewrite}✗ ${label} ${text}\n`);
    },
  };
}
