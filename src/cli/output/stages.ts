/**
 * Shows stages on a stream: a live line on a terminal; otherwise a line every ten seconds and one for each finished
 * stage.
 */
import { formatDuration } from "../../core/quantities.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import { visible } from "../../core/visible-text.js";

const LABEL_WIDTH = 13;
const LINE_EVERY_MS = 10_000;

/**
 * @example const stage = startStage("weights"); stage.update("40 %"); stage.done("5.1 MiB");
 */
export function stagesTo(stream: Pick<NodeJS.WriteStream, "isTTY" | "write">): StartStage {
  return (name) => {
    const startMs = performance.now();
    let toldMs = startMs;
    const label = visible(name).padEnd(LABEL_WIDTH);
    const rewrite = stream.isTTY ? "\r\u001b[2K" : "";
    return {
      update: (text) => {
        if (stream.isTTY) stream.write(`${rewrite}  ${label} ${text}`);
        else if (performance.now() - toldMs >= LINE_EVERY_MS) {
          toldMs = performance.now();
          stream.write(`  ${label} ${text}\n`);
        }
      },
      note: (text) => {
        stream.write(`${rewrite}! ${label} ${text}\n`);
      },
      done: (text) => {
        stream.write(`${rewrite}✓ ${label} ${text} (${formatDuration(performance.now() - startMs)})\n`);
      },
    };
  };
}

/** For commands that show only their result: downloads still show progress. */
export function downloadStages(model: string | undefined): StartStage {
  return model?.startsWith("hf:") === true ? stagesTo(process.stderr) : silentStages;
}
