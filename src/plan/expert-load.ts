/**
 * Whole experts on several devices: the reads and rows of the fullest device, for which all others wait in a step, if
 * tokens choose their experts evenly and independently.
 */

import type { ExpertsFeedForward } from "../model/description/model-description.js";
import { expertsRead } from "../model/description/sizes.js";

/** Estimate of the largest of `count` values with this mean and variance: the usual bound for normal ones. */
function largestOf(count: number, mean: number, variance: number, most: number): number {
  return Math.min(most, mean + Math.sqrt(2 * Math.log(count) * variance));
}

export interface ExpertLoad {
  /** Experts that the fullest device reads, as a multiple of the devices' mean. */
  readonly read: number;
  /** Rows that the fullest device computes, as a multiple of the devices' mean. */
  readonly rows: number;
}

/** @param numRows rows of a step in all devices together */
export function expertLoad(experts: ExpertsFeedForward, numRows: number, numDevices: number): ExpertLoad {
  const held = experts.count / numDevices;
  const share = expertsRead(experts, numRows);
  const draws = numRows * experts.active;
  if (share === 0 || draws === 0) return { read: 1, rows: 1 };
  const read = largestOf(numDevices, held * share, held * share * (1 - share), held);
  const each = draws / numDevices;
  const rows = largestOf(numDevices, each, each * (1 - 1 / numDevices), numRows * Math.min(experts.active, held));
  return { read: Math.max(1, read / (held * share)), rows: Math.max(1, rows / each) };
}
