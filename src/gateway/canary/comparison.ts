/** Compares the requests of a canary with those of the instances beside it. Pure. */
import { type Bounds, LogFigures } from "./log-figures.js";

/** How a request that reached an instance ended. */
export interface Sample {
  readonly hasFailed: boolean;
  /** Time to the first token; undefined for answers that are not streams. */
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

/** The figures of one side's requests. */
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

/** Why a canary ends early. */
interface Breach {
  readonly kind: "slower" | "failing";
  readonly because: string;
}

/** Fewer failures of a canary may be accidents. */
const MIN_FAILED = 3;
/** Wrong at one look in two thousand. Only a look after a new failure can err anew, and these are few. */
const Z_FAILED = 3.29;

/** Wilson's bounds of the share of failed requests. */
function failures({ numFailed, numRequests }: Arm): {
  readonly share: number;
  readonly low: number;
  readonly high: number;
} {
  if (numRequests === 0) return { share: 0, low: 0, high: 1 };
  const square = Z_FAILED ** 2 / numRequests;
  const share = numFailed / numRequests;
  const half = Z_FAILED * Math.sqrt((share * (1 - share)) / numRequests + square / (4 * numRequests));
  const middle = share + square / 2;
  return { share, low: (middle - half) / (1 + square), high: (middle + half) / (1 + square) };
}

const NAMES: Readonly<Record<Time, string>> = {
  ttftMs: "the time to the first token",
  tpotMs: "the time per token",
  durationMs: "the time of a request",
};

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** @returns the limit that is surely exceeded; undefined: none */
export function breachOf(canary: Arm, stable: Arm, limits: CanaryLimits): Breach | undefined {
  const { numFailed, numRequests } = canary;
  const [failed, usual] = [failures(canary), failures(stable)];
  // Newcombe's lower bound of the difference of two shares (Statistics in Medicine 17, 1998, method 10).
  const least = failed.share - usual.share - Math.hypot(failed.share - failed.low, usual.high - usual.share);
  if (numFailed >= MIN_FAILED && least > limits.maxFailures) {
    const because = `${numFailed} of ${numRequests} requests failed, ${percent(usual.share)} of the others`;
    return { kind: "failing", because };
  }
  for (const time of TIMES) {
    const ratio = canary.times[time].ratioTo(stable.times[time]);
    if (ratio === undefined || ratio.low <= limits.maxSlowdown) continue;
    return { kind: "slower", because: `${NAMES[time]} is ${ratioText(ratio)} that of the others` };
  }
  for (const [time, limit] of limitedTimes(limits)) {
    const bounds = canary.times[time].bounds();
    if (bounds !== undefined && bounds.low > limit)
      return { kind: "slower", because: aboveText(time, bounds.value, limit) };
  }
  return undefined;
}

const limitedTimes = ({ maxTtftMs, maxTpotMs }: CanaryLimits): readonly (readonly [Time, number])[] => [
  ["ttftMs", maxTtftMs ?? Number.POSITIVE_INFINITY],
  ["tpotMs", maxTpotMs ?? Number.POSITIVE_INFINITY],
];

const aboveText = (time: Time, ms: number, limit: number): string =>
  `${NAMES[time]} is ${ms.toFixed(1)} ms, above ${limit} ms`;

const ratioText = ({ value, low, high }: Bounds): string =>
  `${value.toFixed(2)} × (${low.toFixed(2)} to ${high.toFixed(2)})`;

/**
 * @returns whether every limit is kept (ratios of times: surely), and why; call it at the end, if there was no breach
 */
export function verdictOf(
  canary: Arm,
  stable: Arm,
  limits: CanaryLimits,
): { readonly hasPassed: boolean; readonly because: string } {
  const { maxSlowdown, maxFailures } = limits;
  const ratio = canary.times.durationMs.ratioTo(stable.times.durationMs);
  if (ratio === undefined) {
    const counts = `${canary.times.durationMs.count} of the canary and ${stable.times.durationMs.count} of the others`;
    return { hasPassed: false, because: `expected 30 answered requests on each side, got ${counts}` };
  }
  const [failed, usual] = [failures(canary), failures(stable)];
  if (failed.share > usual.share + maxFailures) {
    const because = `${percent(failed.share)} of the requests failed, ${percent(usual.share)} of the others`;
    return { hasPassed: false, because };
  }
  for (const [time, limit] of limitedTimes(limits)) {
    const { value = 0 } = canary.times[time];
    if (value > limit) return { hasPassed: false, because: aboveText(time, value, limit) };
  }
  for (const time of TIMES) {
    const each = canary.times[time].ratioTo(stable.times[time]);
    if (each === undefined || each.high <= maxSlowdown) continue;
    const because = `${NAMES[time]} may be above ${maxSlowdown} × that of the others: ${ratioText(each)}`;
    return { hasPassed: false, because };
  }
  return { hasPassed: true, because: `${NAMES.durationMs} is ${ratioText(ratio)} that of the others` };
}

/** The figures of both sides, for display. */
export function figuresOf(canary: Arm, stable: Arm) {
  const armOf = ({ numRequests, numFailed, times }: Arm) => ({
    requests: numRequests,
    failed: numFailed,
    ...Object.fromEntries(TIMES.map((time) => [time, times[time].value ?? null])),
  });
  const ratios = TIMES.map((time) => [time, canary.times[time].ratioTo(stable.times[time]) ?? null]);
  return { canary: armOf(canary), others: armOf(stable), ratios: Object.fromEntries(ratios) };
}
