/**
 * Rules for what binds a server that `millrace tune` and the dashboard share: from the same shares of its steps and its
 * memory they say the same.
 */

const KV_FULL = 0.9;
const KERNELS_IDLE = 0.6;
const MOSTLY_PREFILL = 0.5;

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/**
 * Whether the next request, which needs as much as each of the others, finds no KV memory: before all of it is used.
 * @param kvUse share of 1
 */
export const lacksKvFor = (kvUse: number, numRunning: number): boolean =>
  kvUse * (1 + 1 / Math.max(1, numRunning)) > KV_FULL;

export const isKvFull = (kvUse: number): boolean => kvUse > KV_FULL;

/** Why the host binds, where it does. @param kernelShare of the steps' time, inside the kernels */
export function hostFinding(kernelShare: number | undefined): string | undefined {
  if (kernelShare === undefined || kernelShare >= KERNELS_IDLE) return undefined;
  return `the kernels compute in ${percent(kernelShare)} of the steps' time`;
}

/** Why prompts bind, where they do. @param promptShare of the steps' time */
export function prefillFinding(promptShare: number | undefined): string | undefined {
  if (promptShare === undefined || promptShare < MOSTLY_PREFILL) return undefined;
  return `${percent(promptShare)} of the steps' time is for prompts`;
}
