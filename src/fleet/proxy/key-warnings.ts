/**
 * Says that a provider refuses the gateway's key, which clients cannot mend and are told little about: once for each
 * upstream and minute.
 */
import type { RequestLogger } from "../../core/request-logger.js";

/** A key that is wrong, or has no money or no rights left. */
const OF_THE_KEY: readonly number[] = [401, 402, 403];
const EVERY_MS = 60_000;
/** Upstreams come and go with reloads. */
const MAX_KNOWN = 1000;

export class KeyWarnings {
  readonly #saidMs = new Map<string, number>();

  /** @param now milliseconds that only grow */
  constructor(
    private readonly logger: RequestLogger,
    private readonly now: () => number,
  ) {}

  /** To be told of every status of a provider. */
  answered(instance: string, engine: string, model: string, status: number): void {
    if (!OF_THE_KEY.includes(status)) return;
    const nowMs = this.now();
    const saidMs = this.#saidMs.get(instance);
    if (saidMs !== undefined && nowMs - saidMs < EVERY_MS) return;
    if (this.#saidMs.size >= MAX_KNOWN) this.#saidMs.clear();
    this.#saidMs.set(instance, nowMs);
    const hint = "check the upstream's api-key, its account and its rights";
    this.logger.warn({ instance, engine, model, status, hint }, "the provider does not accept the gateway's key");
  }
}
