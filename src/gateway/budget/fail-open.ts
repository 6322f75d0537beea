/** Requests while the store is down: the operator decides whether they pass without a reservation. */
import { MillraceError } from "../../core/errors.js";
import type { LimitsOptions } from "./limits-options.js";

export const isStoreDown = (thrown: unknown): thrown is MillraceError =>
  thrown instanceof MillraceError && thrown.code === "budget_store_failed";

/** Throws unless the store is down and requests may pass without it. */
export function passUnreserved(thrown: unknown, { isFailOpen, events }: LimitsOptions): void {
  if (!isStoreDown(thrown) || !isFailOpen()) throw thrown;
  events.unreserved(thrown);
}
