/** The time that a chart shows. */

/** Least span: a page that was just opened shows this much time. */
const FEWEST_SECONDS = 120;

/**
 * Seconds since 1970, from the oldest point to the newest. The chart library's own range is a thousand days too long
 * for a single point.
 *
 * @param times milliseconds since 1970, the oldest first
 */
export function timeAxis(times: readonly number[]): [from: number, to: number] {
  const to = (times.at(-1) ?? 0) / 1000;
  return [Math.min((times[0] ?? 0) / 1000, to - FEWEST_SECONDS), to];
}
