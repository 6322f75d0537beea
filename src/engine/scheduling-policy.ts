/**
 * The order of sequences when seats, memory or a step's tokens are scarce. Pure bookkeeping: the scheduler asks, and
 * reports the computed tokens.
 */
import type { SchedulingPolicyName } from "./api/options.js";
import type { Sequence } from "./step/sequence.js";

export interface SchedulingPolicy {
  /** A total order. Negative: `a` goes first. */
  compare(a: Sequence, b: Sequence): number;
  /**
   * May a waiting sequence take the place of a running one that would go after it?
   * @param running the running sequences that stay, without victims chosen already
   * @param isSeatShort whether the waiting sequence lacks a seat, not only memory
   */
  mayDisplace(waiting: Sequence, victim: Sequence, running: readonly Sequence[], isSeatShort: boolean): boolean;
  add(sequence: Sequence): void;
  /** The step computes this many of the sequence's tokens. */
  charge(sequence: Sequence, numPromptTokens: number, numOutputTokens: number): void;
  remove(sequence: Sequence): void;
}

export function createPolicy(name: SchedulingPolicyName): SchedulingPolicy {
  if (name === "fair") return new FairPolicy();
  return name === "priority" ? PRIORITY : FIRST_COME;
}

const byArrival = (a: Sequence, b: Sequence): number => a.id - b.id;

const FIRST_COME: SchedulingPolicy = {
  compare: byArrival,
  mayDisplace: () => false,
  add: () => {},
  charge: () => {},
  remove: () => {},
};

/** Priority classes: a lower number goes first; within a class, arrival decides. */
const PRIORITY: SchedulingPolicy = {
  ...FIRST_COME,
  compare: (a, b) => a.priority - b.priority || byArrival(a, b),
  mayDisplace: (waiting, victim) => waiting.priority < victim.priority,
};

/** Cost of a token to its tenant. An output token costs more: each takes a step. */
const PROMPT_TOKEN_COST = 1;
const OUTPUT_TOKEN_COST = 2;
/**
 * Credit that a tenant may save up, in cost: a prompt of 2,048 tokens. Without it, a tenant with an occasional request
 * would take turns with a tenant that fills every step, and wait twice as long as alone.
 */
const BURST = 2048;
/** Tenants whose counters are kept although they have no requests. */
const MAX_IDLE_TENANTS = 1024;

interface Tenant {
  /** Cost of the tokens computed for the tenant. */
  served: number;
  numRequests: number;
}

/**
 * Virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", 2024): the tenant served least
 * goes first. A tenant that returns after a pause is lifted to at most one burst below the least served tenant present,
 * or below the one that left last if none is present, so that no tenant saves up more than a burst.
 */
class FairPolicy implements SchedulingPolicy {
  readonly #tenants = new Map<string, Tenant>();
  /** `served` of the tenant whose last request ended last. */
  #servedAtLeaving = 0;

  compare(a: Sequence, b: Sequence): number {
    return this.#servedOf(a) - this.#servedOf(b) || byArrival(a, b);
  }

  /**
   * A tenant without a seat takes one from a tenant with several, at once. Otherwise the victim's tenant must still be
   * ahead afterwards, or the two would displace each other in turns.
   */
  mayDisplace(waiting: Sequence, victim: Sequence, running: readonly Sequence[], isSeatShort: boolean): boolean {
    if (waiting.tenant === victim.tenant) return false;
    const seatsOf = (tenant: string) => running.filter((sequence) => sequence.tenant === tenant).length;
    if (isSeatShort && seatsOf(waiting.tenant) === 0 && seatsOf(victim.tenant) > 1) return true;
    const lead = this.#servedOf(victim) - this.#servedOf(waiting);
    return lead > OUTPUT_TOKEN_COST * (victim.numTokens + waiting.numTokens);
  }

  add({ tenant }: Sequence): void {
    const known = this.#tenants.get(tenant);
    if (known !== undefined && known.numRequests > 0) {
      known.numRequests++;
      return;
    }
    let least = Number.POSITIVE_INFINITY;
    for (const { served, numRequests } of this.#tenants.values()) if (numRequests > 0) least = Math.min(least, served);
    const level = least === Number.POSITIVE_INFINITY ? this.#servedAtLeaving : least;
    this.#tenants.set(tenant, { served: Math.max(known?.served ?? 0, level - BURST), numRequests: 1 });
    if (this.#tenants.size > 2 * MAX_IDLE_TENANTS) this.#forgetIdle();
  }

  charge({ tenant }: Sequence, numPromptTokens: number, numOutputTokens: number): void {
    const known = this.#tenants.get(tenant);
    if (known !== undefined) known.served += PROMPT_TOKEN_COST * numPromptTokens + OUTPUT_TOKEN_COST * numOutputTokens;
  }

  remove({ tenant }: Sequence): void {
    const known = this.#tenants.get(tenant);
    if (known !== undefined && --known.numRequests === 0) this.#servedAtLeaving = known.served;
  }

  #servedOf({ tenant }: Sequence): number {
    return this.#tenants.get(tenant)?.served ?? 0;
  }

  #forgetIdle(): void {
    for (const [name, { numRequests }] of this.#tenants) if (numRequests === 0) this.#tenants.delete(name);
  }
}
