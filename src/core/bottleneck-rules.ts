/**
 * Rules that find a server's bottleneck. `millrace tune` and the dashboard share them, so that equal figures lead to
 * equal findings.
 */

const KV_FULL = 0.9;
const KERNELS_IDLE = 0.6;
const MOSTLY_PREFILL = 0.5;

const percent = (share: number): string => `${Math.round(100 * share)} %`;

/**
 * Whether one more request, with as much KV memory as each running one, would fill it.
 * @param kvUse share of 1
 */
export const lacksKvFor = (kvUse: number, numRunning: number): boolean =>
  kvUse * (1 + 1 / Math.max(1, numRunning)) > KV_FULL;

export const isKvFull = (kvUse: number): boolean => kvUse > KV_FULL;

/**
 * The finding if the host is the bottleneck, otherwise undefined.
 * @param kernelShare the kernels' share of the steps' time
 */
export function hostFinding(kernelShare: number | undefined): string | undefined {
  if (kernelShare === undefined || kernelShare >= KERNELS_IDLE) return undefined;
  return `the kernels compute in ${percent(kernelShare)} of the steps' time`;
}

/** The finding if prompts are the bottleneck, otherwise undefined. @param promptShare share of the steps' time */
export function prefillFinding(promptShare: number | undefined): string | undefined {
  if (promptShare === undefined || promptShare < MOSTLY_PREFILL) return undefined;
  return `${percent(promptShare)} of the steps' time is for prompts`;
}
