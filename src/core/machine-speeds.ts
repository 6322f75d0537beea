/**
 * Measured speed of this machine's memory and arithmetic, for plans. Taken beside each measurement, since the next
 * minute
 * may be half as fast.
 */
import { median } from "./statistics.js";

export interface MachineSpeeds {
  readonly bytesPerS: number;
  /** Multiply-adds per second: `narrow` with weights of 4 bits, `wide` of 8 bits, `float` of floats. */
  readonly narrow: number;
  readonly wide: number;
  readonly float: number;
}

/**
 * Combines several readings into the sustained speed: the median, but for memory the lower quartile. Memory reads half
 * as
 * fast again for seconds at a time, without a measured gain in decoding.
 */
export function lastingSpeeds(readings: readonly MachineSpeeds[]): MachineSpeeds {
  const bandwidths = readings.map(({ bytesPerS }) => bytesPerS).sort((a, b) => a - b);
  const middle = (name: "narrow" | "wide" | "float"): number => median(readings.map((reading) => reading[name]));
  return {
    bytesPerS: bandwidths[bandwidths.length >> 2]!,
    narrow: middle("narrow"),
    wide: middle("wide"),
    float: middle("float"),
  };
}
