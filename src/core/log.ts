/**
 * The program's log on stderr, which leaves stdout free for answers: lines for people on a terminal, otherwise JSON.
 * Prompt text and keys never go into it.
 */
import { type Logger, pino } from "pino";
import { formatLogLine } from "./text-log.js";

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_FORMATS = ["auto", "text", "json"] as const;
/** auto: text on a terminal, otherwise JSON. */
export type LogFormat = (typeof LOG_FORMATS)[number];

/** Bytes kept while the disk is full; further lines are dropped. */
const MAX_UNWRITTEN_BYTES = 2 ** 20;

interface LogStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Ignores write errors: a full disk must not fail the request that is logged. */
function stderrFile(): LogStream {
  const file = pino.destination({ fd: process.stderr.fd, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  file.on("error", () => {});
  return file;
}

/** @example const log = createLogger("info"); log.warn({ requestId }, "refused"); */
export function createLogger(level: LogLevel, format: LogFormat = "auto", stream: LogStream = process.stderr): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const isTTY = stream.isTTY === true;
  const target = stream === process.stderr ? stderrFile() : stream;
  const isText = format === "text" || (format === "auto" && isTTY);
  return pino(options, { write: (line) => void target.write(isText ? formatLogLine(line, isTTY) : line) });
}
