/**
 * The program's log on stderr, so that stdout stays free for answers: lines for people on a terminal, JSON elsewhere. Prompt text and keys never go
 * into it.
 */
import { type Logger, pino } from "pino";
import { formatLogLine } from "./text-log.js";

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_FORMATS = ["auto", "text", "json"] as const;
/** auto: text on a terminal, JSON where a program reads. */
export type LogFormat = (typeof LOG_FORMATS)[number];

/** Kept for when a full disk has room again; what comes beyond is dropped. */
const MAX_UNWRITTEN_BYTES = 2 ** 20;

interface LogStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** @example const log = createLogger("info"); log.warn({ requestId }, "refused"); */
export function createLogger(level: LogLevel, format: LogFormat = "auto", stream: LogStream = process.stderr): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const isText = format === "text" || (format === "auto" && stream.isTTY === true);
  if (isText) return pino(options, { write: (line) => void stream.write(formatLogLine(line, stream.isTTY === true)) });
  if (stream !== process.stderr) return pino(options, { write: (line) => void stream.write(line) });
  const file = pino.destination({ fd: process.stderr.fd, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  // A full disk is no reason to fail the request that is logged.
  file.on("error", () => {});
  return pino(options, file);
}
