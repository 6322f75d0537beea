/** Progress of a command's stages on stderr: a line that rewrites itself on a terminal, one line per finished stage elsewhere. */
import { formatDuration } from "./format.js";

export interface Stage {
  update(text: string): void;
  done(text: string): void;
}

export type StartStage = (name: string) => Stage;

const SILENT_STAGE: Stage = { update: () => {}, done: () => {} };

/** For commands whose stderr a supervisor reads. */
export const silentStages: StartStage = () => SILENT_STAGE;

const LABEL_WIDTH = 13;

/** @example const stage = startStage("weights"); stage.update("40 %"); stage.done("5.1 MiB"); */
export function stagesTo(stream: NodeJS.WriteStream): StartStage {
  return (name) => {
    const startMs = performance.now();
    const label = name.padEnd(LABEL_WIDTH);
    const rewrite = stream.isTTY ? "\r\u001b[2K" : "";
    return {
      update: (text) => {
        if (stream.isTTY) stream.write(`${rewrite}  ${label} ${text}`);
      },
      done: (text) => {
        stream.write(`${rewrite}✓ ${label} ${text} (${formatDuration(performance.now() - startMs)})\n`);
      },
    };
  };
}
