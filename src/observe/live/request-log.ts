/**
 * One log line for each ended request, at level debug: the inspector's row, so that the same id finds the request at a
 * gateway, at its engine and in traces.
 */
import type { RequestLogger } from "../../core/request-logger.js";
import type { RequestRow } from "./request-rows.js";

export type RequestLog = (row: RequestRow) => void;

/** undefined: the logger does not write this level, so no rows are built for it. */
export function requestLogOf(logger: RequestLogger): RequestLog | undefined {
  if (logger.isLevelEnabled?.("debug") !== true) return undefined;
  return ({ id, at_ms: _, outcome, ...row }) => {
    const fields: Record<string, unknown> = { requestId: id };
    for (const [name, value] of Object.entries(row)) {
      fields[name] = typeof value === "number" ? Math.round(1000 * value) / 1000 : value;
    }
    logger.debug(fields, `request ${outcome}`);
  };
}
