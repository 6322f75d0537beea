/** The part of pino's logger that servers and the gateway use. Prompt text and keys are never logged. */
export interface RequestLogger {
  /** Absent: unknown, so the caller skips costly fields of that level. */
  isLevelEnabled?(level: "debug"): boolean;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
