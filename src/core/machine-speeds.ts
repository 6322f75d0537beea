/**
 * Measured speed of this machine's memory and arithmetic, for plans. Taken beside each measurement, because the next
 * minute may be half as fast.
 */
import { median } from "./statistics.js";

export interface MachineSpeeds {
  readonly bytesPerS: number;
  /** Multiply-adds per second with weights of 4 and of 8 bits, and of floats. */
  readonly narrow: number;
  readonly wide: number;
  readonly float: number;
}

/**
 * Combines several readings into the speed that lasts: the median, but for memory the lower quartile. Memory is read
 * half as fast again for seconds at a time, and decoding was not seen to gain by it.
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
