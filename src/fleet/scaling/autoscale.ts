/**
 * How many instances of a model there should be, from its queue: a pure policy, asked every few seconds. Aggressive up, slow down, and the two
 * conditions lie so far apart that no constant load can meet both.
 */

export interface AutoscaleRules {
  readonly min: number;
  readonly max: number;
  /** More requests waiting than this share of the seats is saturation. */
  readonly upAt: number;
  /** How long saturation has to last before there is another instance. */
  readonly upAfterMs: number;
  /** How long one instance fewer must have been enough before one goes. */
  readonly downAfterMs: number;
}

export const DEFAULT_AUTOSCALE = { upAt: 0.8, upAfterMs: 30_000, downAfterMs: 600_000 } as const;

/** What is seen of a model at one moment. */
interface ScaleSample {
  readonly nowMs: number;
  readonly running: number;
  /** In the engines' queues and in ours. */
  readonly waiting: number;
  /** Sequences an instance holds at once. */
  readonly seats: number;
  readonly ready: number;
  /** Loading: capacity that is on its way, and that nothing may take back before it is there. */
  readonly starting: number;
}

/** What the policy remembers between two samples. */
export interface ScaleMemory {
  readonly saturatedSinceMs: number | undefined;
  readonly ampleSinceMs: number | undefined;
  /** Steps up since the queue was last short: each is twice the one before. */
  readonly numStepsUp: number;
}

export const NO_MEMORY: ScaleMemory = { saturatedSinceMs: undefined, ampleSinceMs: undefined, numStepsUp: 0 };

interface ScaleDecision {
  readonly target: number;
  readonly reason: string | undefined;
  readonly memory: ScaleMemory;
}

/** An instance may go when those that stay are at most this full: room for bursts, and the gap that keeps up and down apart. */
const FULL_ENOUGH = 0.6;

const bounded = (count: number, { min, max }: AutoscaleRules): number => Math.min(max, Math.max(min, count));

/** Requests wait for a model of which nothing runs: no reason to look at a clock. */
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
  // Never more than what would seat everybody.
  const enough = Math.ceil((running + waiting) / seats);
  const target = bounded(Math.max(current, Math.min(enough, current + 2 ** memory.numStepsUp)), rules);
  if (target === current) return { target, reason: undefined, memory: waitingOn };
  const after: ScaleMemory = { saturatedSinceMs: nowMs, ampleSinceMs: undefined, numStepsUp: memory.numStepsUp + 1 };
  return { target, reason: `${waiting} waiting for ${current * seats} seats`, memory: after };
}

function stepDown(rules: AutoscaleRules, sample: ScaleSample, memory: ScaleMemory): ScaleDecision {
  const { nowMs, running, waiting, seats, ready } = sample;
  const isAmple = running + waiting <= FULL_ENOUGH * (ready - 1) * seats;
  if (!isAmple) return { target: ready, reason: undefined, memory: NO_MEMORY };
  const sinceMs = memory.ampleSinceMs ?? nowMs;
  if (nowMs - sinceMs < rules.downAfterMs || ready <= rules.min) {
    return { target: ready, reason: undefined, memory: { ...NO_MEMORY, ampleSinceMs: sinceMs } };
  }
  // The next one has to wait its own time.
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
  // Those that are starting count as if they were there: a queue they can seat is no reason for more.
  if (sample.waiting > rules.upAt * current * sample.seats) return stepUp(rules, sample, memory);
  if (sample.starting > 0) return { target: current, reason: undefined, memory: NO_MEMORY };
  return stepDown(rules, sample, memory);
}
