/** The program's log: JSON lines on stderr, so that stdout stays free for answers. Prompt text and keys never go into it. */
import { type Logger, pino } from "pino";

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** @example const log = createLogger("info"); log.warn({ requestId }, "refused"); */
export function createLogger(level: LogLevel): Logger {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  return pino(options, pino.destination({ fd: process.stderr.fd, sync: true }));
}
