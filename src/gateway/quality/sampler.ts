/**
 * Draws the requests that are sampled: a share of all, and at least a number a day of each model and tenant. A
 * request's chance is known when it is drawn, so that sums weighted by its inverse are unbiased.
 */

interface SamplerOptions {
  /** Share of all requests, 0 to 1. */
  readonly share: number;
  /** Least number of samples a day for each model and tenant, even beyond the share. */
  readonly atLeast: number;
  /** A random number in [0, 1). */
  readonly random: () => number;
  readonly epochMs: () => number;
}

export interface Draw {
  /** Whether the request is sampled. */
  readonly isTaken: boolean;
  /** The inverse of the request's chance to be sampled. */
  readonly weight: number;
  /** Whether the share alone would have taken the request: such samples compare between models and tenants. */
  readonly isPlain: boolean;
  /** Call if no answer comes that can be judged: the request then counts neither as a request nor as a sample. */
  readonly giveBack: () => void;
}

interface Stratum {
  day: number;
  requests: number;
  samples: number;
  /** Requests of the day before. */
  yesterday: number;
}

const DAY_MS = 86_400_000;
/** Pairs of model and tenant of one day; further pairs have the plain share only. */
const MAX_STRATA = 10_000;

export class Sampler {
  /** Pairs, the one with the earliest day of its last request first. */
  readonly #strata = new Map<string, Stratum>();

  constructor(private readonly options: SamplerOptions) {}

  /** Call before the answer is known. */
  draw(model: string, tenant: string): Draw {
    const { share, atLeast, random } = this.options;
    const stratum = atLeast === 0 ? undefined : this.#stratum(model, tenant);
    const chance = Math.max(share, stratum === undefined ? 0 : floorChance(stratum, atLeast));
    const drawn = random();
    const isTaken = drawn < chance;
    if (stratum !== undefined) {
      stratum.requests++;
      stratum.samples += Number(isTaken);
    }
    const day = stratum?.day;
    const giveBack = (): void => {
      if (stratum === undefined || stratum.day !== day) return;
      stratum.requests--;
      stratum.samples -= Number(isTaken);
    };
    return { isTaken, weight: 1 / chance, isPlain: drawn < share, giveBack };
  }

  #stratum(model: string, tenant: string): Stratum | undefined {
    const day = Math.floor(this.options.epochMs() / DAY_MS);
    const key = `${tenant}\n${model}`;
    const known = this.#strata.get(key);
    if (known !== undefined) {
      if (known.day !== day) {
        known.yesterday = known.day === day - 1 ? known.requests : 0;
        known.day = day;
        known.requests = 0;
        known.samples = 0;
        this.#strata.delete(key);
        this.#strata.set(key, known);
      }
      return known;
    }
    if (this.#strata.size >= MAX_STRATA && !this.#makeRoom(day)) return undefined;
    const made = { day, requests: 0, samples: 0, yesterday: 0 };
    this.#strata.set(key, made);
    return made;
  }

  /** Forgets a stratum without a request today. @returns false if there is none */
  #makeRoom(day: number): boolean {
    const [key, first] = this.#strata.entries().next().value ?? [];
    return key !== undefined && first?.day !== day && this.#strata.delete(key);
  }
}

/**
 * The chance that spreads the samples still wanted over the requests still to come, if today is like yesterday (Knuth's
 * algorithm S).
 */
function floorChance({ requests, samples, yesterday }: Stratum, atLeast: number): number {
  const wanted = atLeast - samples;
  return wanted <= 0 ? 0 : Math.min(1, wanted / Math.max(1, yesterday - requests));
}
