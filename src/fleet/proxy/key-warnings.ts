/**
 * Logs that a provider refuses the gateway's key, once per upstream and minute. Clients cannot fix this and are told
 * little.
 */
import type { RequestLogger } from "../../core/request-logger.js";

/** The key is wrong, or lacks money or rights. */
const OF_THE_KEY: readonly number[] = [401, 402, 403];
const EVERY_MS = 60_000;
/** Reloads add and remove upstreams. */
const MAX_KNOWN = 1000;

export class KeyWarnings {
  readonly #saidMs = new Map<string, number>();

  /** @param now monotonic clock in milliseconds */
  constructor(
    private readonly logger: RequestLogger,
    private readonly now: () => number,
  ) {}

  /** Call it with every status from a provider. */
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
