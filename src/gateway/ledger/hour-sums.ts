/** Sums up the requests of a turn by hour and dimension, so that a turn with many requests writes few sums. */
import type { AttemptRow, RequestRow } from "./ledger-rows.js";

export const HOUR_MS = 3_600_000;

/** Columns of a row before its sums. */
const NUM_DIMENSIONS = 7;

export class HourSums {
  readonly #rows = new Map<string, (string | number | bigint)[]>();

  /**
   * @param attempt undefined: the gateway answered the request itself
   * @param isLast counts the request itself too, with its last attempt
   */
  add(row: RequestRow, attempt: AttemptRow | undefined, isLast: boolean): void {
    const values = valuesOf(row, attempt, isLast);
    const name = values.slice(0, NUM_DIMENSIONS).join("\0");
    const sums = this.#rows.get(name);
    if (sums === undefined) {
      this.#rows.set(name, values);
      return;
    }
    for (let i = NUM_DIMENSIONS; i < values.length; i++) {
      const [sum, value] = [sums[i]!, values[i]!];
      sums[i] = typeof sum === "bigint" ? sum + (value as bigint) : (sum as number) + (value as number);
    }
  }

  /** Values of `ledger_hours`, in the order of DIMENSIONS and SUMS. */
  rows(): Iterable<readonly (string | number | bigint)[]> {
    return this.#rows.values();
  }
}

function valuesOf(row: RequestRow, attempt: AttemptRow | undefined, isLast: boolean): (string | number | bigint)[] {
  const { beganMs, tenant, team, key, served, asked } = row;
  const counts = attempt?.counts;
  const isUnpriced = counts !== undefined && attempt?.cost === undefined;
  return [
    beganMs - (beganMs % HOUR_MS),
    tenant,
    team,
    key,
    attempt?.model ?? (served === "" ? asked : served),
    attempt?.engine ?? "",
    isLast ? row.status : attempt!.status,
    isLast ? 1 : 0,
    attempt === undefined ? 0 : 1,
    counts?.fresh ?? 0,
    counts?.cacheRead ?? 0,
    counts?.cacheWrite ?? 0,
    counts?.output ?? 0,
    counts?.reasoning ?? 0,
    counts?.drafted ?? 0,
    counts?.accepted ?? 0,
    attempt?.cost ?? 0n,
    isLast ? row.saved : 0n,
    isUnpriced ? 1 : 0,
    counts?.isEstimated === true ? 1 : 0,
    isLast && row.savedBy !== "" ? 1 : 0,
    isLast ? Math.round(row.totalMs) : 0,
    counts?.isTruncated === true ? 1 : 0,
  ];
}
