/** Routing policies: each is a pure function that chooses one of the candidate instances. */
import { rootKey } from "../../text/block-hash.js";

export const ROUTING_POLICIES = ["prefix", "least-load", "round-robin", "session"] as const;
export type RoutingPolicyName = (typeof ROUTING_POLICIES)[number];

export interface RoutingCandidate {
  readonly id: string;
  /** Share of the request's prompt that the instance has cached, 0 to 1. */
  readonly matchedFraction: number;
  /** Share of the instance's seats in use, where requests count by their tokens. */
  readonly load: number;
  /** Sequences in flight on the instance. */
  readonly numInFlight: number;
}

export interface Question {
  /** At least one instance. */
  readonly candidates: readonly RoutingCandidate[];
  /** Number of the request; ties are broken in turn by it. */
  readonly turn: number;
  /** Weight of the load: a full prefix match outweighs a load of 1/β times the mean. */
  readonly beta: number;
  /** Session of the request, for the policy that keeps sessions together. */
  readonly session: string | undefined;
}

/** @returns an index of `candidates` */
type RoutingPolicy = (question: Question) => number;

/**
 * Least mean load to compare with. While seats are free, a busier instance is hardly slower, and recomputing a prompt
 * costs more.
 */
const QUIET_LOAD = 0.5;
/** A session leaves an instance that has this many times its share of the sequences. */
const BOUNDED_LOAD = 1.25;

/** Chooses the highest score. Ties go in turn, so that the first instance does not get them all. */
function best({ candidates, turn }: Question, scoreOf: (candidate: RoutingCandidate) => number): number {
  let bestIndex = 0;
  let bestScore = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < candidates.length; i++) {
    const index = (turn + i) % candidates.length;
    const score = scoreOf(candidates[index]!);
    if (score > bestScore) {
      bestScore = score;
      bestIndex = index;
    }
  }
  return bestIndex;
}

/**
 * Score: matched share of the prompt − β · load relative to the mean. The match alone would send everything to one
 * instance; the load alone would ignore the caches. A popular prefix spills over once its instance is busier than
 * another by the mean load, and then both have it cached.
 */
function byPrefix(question: Question): number {
  const { candidates, beta } = question;
  const mean = candidates.reduce((sum, { load }) => sum + load, 0) / candidates.length;
  const unit = Math.max(mean, QUIET_LOAD);
  return best(question, ({ matchedFraction, load }) => matchedFraction - (beta * load) / unit);
}

function byLoad(question: Question): number {
  return best(question, ({ load }) => -load);
}

function byTurn({ candidates, turn }: Question): number {
  return turn % candidates.length;
}

/**
 * Rendezvous hashing: each session ranks the instances in its own order, so an instance that joins or leaves moves only
 * its own sessions. The request goes to the first instance in that order with less than 1.25 times its share of the
 * sequences (consistent hashing with bounded loads).
 */
function bySession(question: Question): number {
  const { candidates, session } = question;
  if (session === undefined) return byLoad(question);
  const total = candidates.reduce((sum, { numInFlight }) => sum + numInFlight, 1);
  const bound = Math.ceil((BOUNDED_LOAD * total) / candidates.length);
  return best(question, ({ id, numInFlight }) =>
    numInFlight < bound ? rootKey(`${session}\n${id}`) : Number.NEGATIVE_INFINITY,
  );
}

export const POLICIES: Readonly<Record<RoutingPolicyName, RoutingPolicy>> = {
  prefix: byPrefix,
  "least-load": byLoad,
  "round-robin": byTurn,
  session: bySession,
};
