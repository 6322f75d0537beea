/**
 * The number of instances for a model, from its queue: a pure policy, evaluated once a second. It scales up fast and
 * down slowly. No constant load meets both conditions, so the number does not oscillate.
 */

export interface AutoscaleRules {
  readonly min: number;
  readonly max: number;
  /** Waiting requests, as a share of the seats, above which a model is saturated. */
  readonly upAt: number;
  /** Duration of saturation before an instance is added. */
  readonly upAfterMs: number;
  /** Time for which one instance fewer must have sufficed before an instance is removed. */
  readonly downAfterMs: number;
  /** Ready instances beyond the need of the load. */
  readonly spare: number;
}

export const DEFAULT_AUTOSCALE = { upAt: 0.8, upAfterMs: 30_000, downAfterMs: 600_000, spare: 0 } as const;

/** The load of a model at one moment. */
interface ScaleSample {
  readonly nowMs: number;
  readonly running: number;
  /** Requests in the fleet's queue and in those of the engines. */
  readonly waiting: number;
  /** Sequences that an instance computes at once. */
  readonly seats: number;
  readonly ready: number;
  /** Instances that are loading. None of them is removed before it is ready. */
  readonly starting: number;
}

/** The state of the policy between two samples. */
export interface ScaleMemory {
  readonly saturatedSinceMs: number | undefined;
  readonly ampleSinceMs: number | undefined;
  /** Steps up since the queue was last short: each step is twice the one before. */
  readonly numStepsUp: number;
}

export const NO_MEMORY: ScaleMemory = { saturatedSinceMs: undefined, ampleSinceMs: undefined, numStepsUp: 0 };

interface ScaleDecision {
  readonly target: number;
  readonly reason: string | undefined;
  readonly memory: ScaleMemory;
}

/**
 * An instance is removed only if the others stay at most this full, which leaves room for bursts and separates the two
 * conditions.
 */
const FULL_ENOUGH = 0.6;

/** Instances for the load, each as full as stepDown allows, plus the spare ones. */
const withSpare = ({ spare }: AutoscaleRules, { running, waiting, seats }: ScaleSample): number =>
  spare === 0 ? 0 : Math.ceil((running + waiting) / seats) + spare;

const bounded = (count: number, { min, max }: AutoscaleRules): number => Math.min(max, Math.max(min, count));

/** Without any instance, the first request starts one at once, regardless of the clock. */
function fromZero(rules: AutoscaleRules, { waiting, running }: ScaleSample): ScaleDecision {
  const isAsked = waiting + running > 0;
  const target = bounded(isAsked ? 1 : 0, rules);
  return { target, reason: target > 0 ? `${waiting} waiting, none running` : undefined, memory: NO_MEMORY };
}

function stepUp(rules: AutoscaleRules, sample: ScaleSample, memory: ScaleMemory): ScaleDecision {
  const { nowMs, running, waiting, seats, ready, starting } = sample;
  const current = ready + starting;
  const sinceMs = memory.saturatedSinceMs ?? nowMs;
  const waitingOn: ScaleMemory = { ...memory, saturatedSinceMs: sinceMs, ampleSinceMs: undefined };
  if (nowMs - sinceMs < rules.upAfterMs) return { target: current, reason: undefined, memory: waitingOn };
  // At most the instances that seat every request.
  const enough = Math.ceil((running + waiting) / seats);
  const target = bounded(Math.max(current, Math.min(enough, current + 2 ** memory.numStepsUp)), rules);
  if (target === current) return { target, reason: undefined, memory: waitingOn };
  const after: ScaleMemory = { saturatedSinceMs: nowMs, ampleSinceMs: undefined, numStepsUp: memory.numStepsUp + 1 };
  return { target, reason: `${waiting} waiting for ${current * seats} seats`, memory: after };
}

function stepDown(rules: AutoscaleRules, sample: ScaleSample, memory: ScaleMemory): ScaleDecision {
  const { nowMs, running, waiting, seats, ready } = sample;
  const isAmple = running + waiting <= FULL_ENOUGH * (ready - 1) * seats && ready > withSpare(rules, sample);
  if (!isAmple) return { target: ready, reason: undefined, memory: NO_MEMORY };
  const sinceMs = memory.ampleSinceMs ?? nowMs;
  if (nowMs - sinceMs < rules.downAfterMs || ready <= rules.min) {
    return { target: ready, reason: undefined, memory: { ...NO_MEMORY, ampleSinceMs: sinceMs } };
  }
  // The next removal needs its own waiting time.
  const after = { ...NO_MEMORY, ampleSinceMs: nowMs };
  return { target: ready - 1, reason: `${running} running, ${ready - 1} instances are enough`, memory: after };
}

/** @example const { target, memory } = scale(rules, NO_MEMORY, sample) */
export function scale(rules: AutoscaleRules, memory: ScaleMemory, sample: ScaleSample): ScaleDecision {
  const current = sample.ready + sample.starting;
  if (current === 0) return fromZero(rules, sample);
  if (current < rules.min || current > rules.max) {
    return { target: bounded(current, rules), reason: "outside of min and max", memory: NO_MEMORY };
  }
  const kept = bounded(withSpare(rules, sample), rules);
  // A spare instance that the load takes is replaced at once: its purpose is to save the delay.
  if (current < kept) return { target: kept, reason: `${rules.spare} spare`, memory: NO_MEMORY };
  // Starting instances count as ready ones: a queue that they can seat needs no further instance.
  if (sample.waiting > rules.upAt * current * sample.seats) return stepUp(rules, sample, memory);
  if (sample.starting > 0) return { target: current, reason: undefined, memory: NO_MEMORY };
  return stepDown(rules, sample, memory);
}
