/** Who goes first when seats, memory or a step's tokens are scarce. Pure bookkeeping: the scheduler asks, and tells what it computed. */
import type { SchedulingPolicyName } from "./api/options.js";
import type { Sequence } from "./step/sequence.js";

export interface SchedulingPolicy {
  /** Negative: `a` goes first. A total order. */
  compare(a: Sequence, b: Sequence): number;
  /**
   * May a waiting sequence take the place of a running one that would go after it?
   * @param running all that run, but for those whose places it takes already
   * @param isSeatShort whether it is a seat that it lacks, and not only memory
   */
  mayDisplace(waiting: Sequence, victim: Sequence, running: readonly Sequence[], isSeatShort: boolean): boolean;
  add(sequence: Sequence): void;
  /** The step computes so many of the sequence's tokens. */
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

/** Classes: a lower number goes first, whatever came earlier in others. */
const PRIORITY: SchedulingPolicy = {
  ...FIRST_COME,
  compare: (a, b) => a.priority - b.priority || byArrival(a, b),
  mayDisplace: (waiting, victim) => waiting.priority < victim.priority,
};

/** What a token costs its tenant: one of the output takes a row of a step of its own. */
const PROMPT_TOKEN_COST = 1;
const OUTPUT_TOKEN_COST = 2;
/**
 * Of its share, what a tenant may leave unused and have later, at once: a prompt of so many tokens. Without it, who asks now and then would take turns with
 * whoever fills every step, and wait twice as long as alone.
 */
const BURST = 2048;
/** Tenants whose counters are kept although they have no requests. */
const MAX_IDLE_TENANTS = 1024;

interface Tenant {
  /** Cost of what was computed for it. */
  served: number;
  numRequests: number;
}

/**
 * Virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", 2024): the tenant that was served least goes first; who
 * comes back after a pause starts at most a burst behind the least served of those present, or behind who left last where nobody is, so that nobody saves
 * up more than that.
 */
class FairPolicy implements SchedulingPolicy {
  readonly #tenants = new Map<string, Tenant>();
  /** Of the tenant whose last request ended last. */
  #servedAtLeaving = 0;

  compare(a: Sequence, b: Sequence): number {
    return this.#servedOf(a) - this.#servedOf(b) || byArrival(a, b);
  }

  /**
   * A tenant that runs nothing gets a seat of one that has several, at once. Beyond that only when it leaves the other tenant still ahead, or the
   * two would take turns at throwing each other out.
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
