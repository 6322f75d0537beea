/** Measures the requests of a canary and of the model's other instances, from the events of observers. */
import type { Sample } from "../../gateway/canary/comparison.js";
import { DEAF_REQUEST, type Outcome, type ProxyObserver, type RequestObserver } from "../../gateway/observer.js";

/** Takes the samples of one side. */
interface Side {
  add(sample: Sample): void;
}

/** Sides by instance id; empty while no requests are shared. */
type Sides = ReadonlyMap<string, Side>;

class Measured implements RequestObserver {
  readonly #startMs = performance.now();
  #side: Side | undefined;
  /** The request went to both sides, or waited for both, so its time belongs to neither. */
  #isMixed = false;
  #hasPassed = false;
  #firstByteMs: number | undefined;
  #outputTokens: number | undefined;

  constructor(
    private readonly isStream: boolean,
    private readonly sides: () => Sides,
  ) {}

  /** Called again for another model if the first one had no instance for the request. */
  passed(): void {
    this.#isMixed ||= this.#hasPassed;
    this.#hasPassed = true;
  }

  routed(instanceId: string): void {
    const side = this.sides().get(instanceId);
    this.#isMixed ||= this.#side !== undefined && side !== this.#side;
    this.#side = side;
  }

  retried(): void {}

  firstByte(): void {
    this.#firstByteMs ??= performance.now();
  }

  used({ outputTokens }: { readonly outputTokens: number | undefined }): void {
    this.#outputTokens = outputTokens;
  }

  ended(outcome: Outcome, status: number): void {
    const isClients = outcome === "cancelled" || (status >= 400 && status < 500);
    if (this.#side === undefined || this.#isMixed || isClients) return;
    const endMs = performance.now();
    const firstMs = this.isStream ? this.#firstByteMs : undefined;
    const numGaps = (this.#outputTokens ?? 0) - 1;
    this.#side.add({
      hasFailed: outcome !== "answered" || status >= 500,
      ttftMs: firstMs === undefined ? undefined : firstMs - this.#startMs,
      tpotMs: firstMs === undefined || numGaps < 1 ? undefined : (endMs - firstMs) / numGaps,
      durationMs: endMs - this.#startMs,
    });
  }
}

export function sampleRequests(sides: () => Sides): ProxyObserver {
  return {
    started: ({ isStream }) => (sides().size === 0 ? DEAF_REQUEST : new Measured(isStream, sides)),
    refused() {},
  };
}
