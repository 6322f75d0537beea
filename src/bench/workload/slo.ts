/** Whether a request met its service-level objectives. */
import type { Slo } from "../../core/slo.js";

/** Whether all limits are met. Missing times are ignored, because a single token has no TPOT. */
export function meets(
  slo: Slo,
  times: { readonly ttftMs: number; readonly tpotMs: number | undefined; readonly e2eMs: number },
): boolean {
  const within = (value: number | undefined, limit: number | undefined) =>
    value === undefined || limit === undefined || value <= limit;
  return within(times.ttftMs, slo.ttftMs) && within(times.tpotMs, slo.tpotMs) && within(times.e2eMs, slo.e2eMs);
}
