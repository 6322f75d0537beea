/** Compares the requests of a canary with those of the instances beside it. Pure. */
import { type Bounds, LogFigures } from "./log-figures.js";

/** How a request that reached an instance ended. */
export interface Sample {
  readonly hasFailed: boolean;
  /** Of streams. */
  readonly ttftMs: number | undefined;
  /** Time per output token after the first, of streams. */
  readonly tpotMs: number | undefined;
  readonly durationMs: number;
}

export interface CanaryLimits {
  /** Times, relative to those of the other instances. */
  readonly maxSlowdown: number;
  /** Failed requests, as a share of all, beyond the share of the other instances. */
  readonly maxFailures: number;
  /** Mean time to the first token. */
  readonly maxTtftMs?: number | undefined;
  /** Mean time per output token. */
  readonly maxTpotMs?: number | undefined;
}

const TIMES = ["ttftMs", "tpotMs", "durationMs"] as const;
type Time = (typeof TIMES)[number];

/** The requests of one side. */
export class Arm {
  readonly times: Readonly<Record<Time, LogFigures>> = {
    ttftMs: new LogFigures(),
    tpotMs: new LogFigures(),
    durationMs: new LogFigures(),
  };
  numRequests = 0;
  numFailed = 0;

  add({ hasFailed, ...times }: Sample): void {
    this.numRequests++;
    if (hasFailed) this.numFailed++;
    else for (const time of TIMES) this.times[time].add(times[time] ?? 0);
  }
}

/** Why a canary ends before its time. */
interface Breach {
  readonly kind: "slower" | "failing";
  readonly because: string;
}

/** A canary that fails as often as this is no accident. */
const MIN_FAILED = 3;
/** One look in two thousand is wrong. Failures are counted at each of them, so few looks see a new one. */
const Z_FAILED = 3.29;

/** Wilson's lower bound of a share. */
function leastShare(count: number, of: number): number {
  const square = Z_FAILED ** 2 / of;
  const share = count / of;
  const half = Z_FAILED * Math.sqrt((share * (1 - share)) / of + square / (4 * of));
  return Math.max(0, (share + square / 2 - half) / (1 + square));
}

const NAMES: Readonly<Record<Time, string>> = {
  ttftMs: "the time to the first token",
  tpotMs: "the time per token",
  durationMs: "the time of a request",
};

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** @returns the limit that is surely exceeded; undefined where none is */
export function breachOf(canary: Arm, stable: Arm, limits: CanaryLimits): Breach | undefined {
  const { numFailed, numRequests } = canary;
  const usual = stable.numRequests === 0 ? 0 : stable.numFailed / stable.numRequests;
  if (numFailed >= MIN_FAILED && leastShare(numFailed, numRequests) > usual + limits.maxFailures) {
    const because = `${numFailed} of ${numRequests} requests failed, ${percent(usual)} of the others`;
    return { kind: "failing", because };
  }
  for (const time of TIMES) {
    const ratio = canary.times[time].ratioTo(stable.times[time]);
    if (ratio === undefined || ratio.low <= limits.maxSlowdown) continue;
    return { kind: "slower", because: `${NAMES[time]} is ${ratioText(ratio)} that of the others` };
  }
  const limited = { ttftMs: limits.maxTtftMs, tpotMs: limits.maxTpotMs };
  for (const time of ["ttftMs", "tpotMs"] as const) {
    const [limit, bounds] = [limited[time], canary.times[time].bounds()];
    if (limit === undefined || bounds === undefined || bounds.low <= limit) continue;
    return { kind: "slower", because: `${NAMES[time]} is ${bounds.value.toFixed(1)} ms, above ${limit} ms` };
  }
  return undefined;
}

const ratioText = ({ value, low, high }: Bounds): string =>
  `${value.toFixed(2)} × (${low.toFixed(2)} to ${high.toFixed(2)})`;

/** @returns whether every time is surely within the limit, and why; to call when there was no breach until the end */
export function verdictOf(
  canary: Arm,
  stable: Arm,
  { maxSlowdown }: CanaryLimits,
): { readonly hasPassed: boolean; readonly because: string } {
  const ratio = canary.times.durationMs.ratioTo(stable.times.durationMs);
  if (ratio === undefined) {
    const counts = `${canary.numRequests} of the canary and ${stable.numRequests} of the others`;
    return { hasPassed: false, because: `expected 30 answered requests on each side, got ${counts}` };
  }
  for (const time of TIMES) {
    const each = canary.times[time].ratioTo(stable.times[time]);
    if (each === undefined || each.high <= maxSlowdown) continue;
    const because = `${NAMES[time]} may be above ${maxSlowdown} × that of the others: ${ratioText(each)}`;
    return { hasPassed: false, because };
  }
  return { hasPassed: true, because: `${NAMES.durationMs} is ${ratioText(ratio)} that of the others` };
}

/** The figures of both sides, for those who watch. */
export function figuresOf(canary: Arm, stable: Arm) {
  const armOf = ({ numRequests, numFailed, times }: Arm) => ({
    requests: numRequests,
    failed: numFailed,
    ...Object.fromEntries(TIMES.map((time) => [time, times[time].value ?? null])),
  });
  const ratios = TIMES.map((time) => [time, canary.times[time].ratioTo(stable.times[time]) ?? null]);
  return { canary: armOf(canary), others: armOf(stable), ratios: Object.fromEntries(ratios) };
}
