/** Which instance a request goes to: each policy is a function of what is known of the candidates, and of nothing else. */
import { rootKey } from "../../text/block-hash.js";

export const ROUTING_POLICIES = ["prefix", "least-load", "round-robin", "session"] as const;
export type RoutingPolicyName = (typeof ROUTING_POLICIES)[number];

export interface RoutingCandidate {
  readonly id: string;
  /** Share of the request's prompt that the instance has computed before, 0 to 1. */
  readonly matchedFraction: number;
  /** Share of its seats in use, where requests count by their tokens. */
  readonly load: number;
  /** Sequences in flight. */
  readonly numInFlight: number;
}

export interface Question {
  /** At least one. */
  readonly candidates: readonly RoutingCandidate[];
  /** Counts requests: between equals, turns decide. */
  readonly turn: number;
  /** What a full match is worth: β times the mean load. */
  readonly beta: number;
  /** Who asks, where sessions stay together. */
  readonly session: string | undefined;
}

/** @returns an index of `candidates` */
type RoutingPolicy = (question: Question) => number;

/** Below this mean, loads are compared with it: while seats are free, what is busier is hardly slower, and a prompt computed anew costs more. */
const QUIET_LOAD = 0.5;
/** A session moves on from an instance with this many times its share. */
const BOUNDED_LOAD = 1.25;

/** The highest score; among equals the one whose turn it is, or every tie would go to the first. */
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
 * Matched share of the prompt − β · load relative to the mean. Match alone would make a monopoly of one instance, load alone would forget what is cached; a
 * popular prefix spills over as soon as its instance is a mean's worth busier than another, which then knows it too.
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
 * Rendezvous hashing: each session ranks the instances in an order of its own, so that one coming or going moves only the sessions it had or gets. The first in
 * that order with less than 1.25 times its share of the sequences takes the request (consistent hashing with bounded loads).
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
