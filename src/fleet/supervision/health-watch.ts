/** Polls the health and the metrics of a running engine. */

import { pause, within } from "../../core/abort-signals.js";
import type { Adapter } from "../adapters/adapter.js";
import { askEngine, askForText } from "../adapters/engine-http.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { UpstreamTarget } from "../upstream/upstream.js";
import type { FleetTiming } from "./timing.js";

interface HealthListener {
  onMetrics(metrics: EngineMetrics): void;
  /**
   * Called after every check.
   * @param problem undefined if the engine is healthy
   * @param isSure the engine refused the connection, or failed several checks in a row; false for a single late or bad
   * answer
   */
  onHealth(problem: string | undefined, isSure: boolean): void;
}

export class HealthWatch {
  /** Pauses all checks, since a sleeping engine might crash at one. */
  isResting = false;
  #waiting = new AbortController();
  /** Callers of `nudge` in wait for the next check. */
  #doubters: (() => void)[] = [];
  #numFailed = 0;
  #hasEnded = false;

  constructor(
    private readonly adapter: Adapter,
    private readonly target: UpstreamTarget,
    private readonly timing: FleetTiming,
    private readonly listener: HealthListener,
  ) {}

  /** Checks the health at once. Resolves after a check that began after the call. */
  nudge(): Promise<void> {
    if (this.#hasEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#doubters.push(resolve);
      this.#waiting.abort();
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    // Two separate loops: late metrics must not delay the check that detects a hung engine.
    await Promise.all([this.#watchHealth(signal), this.#watchMetrics(signal)]);
  }

  async #watchHealth(signal: AbortSignal): Promise<void> {
    const endWait = (): void => this.#waiting.abort();
    signal.addEventListener("abort", endWait);
    while (!signal.aborted) {
      this.#waiting = new AbortController();
      if (this.#doubters.length === 0) await pause(this.timing.healthMs, this.#waiting.signal);
      const doubters = this.#doubters;
      this.#doubters = [];
      if (!signal.aborted && !this.isResting) await this.#checkHealth(signal);
      for (const settle of doubters) settle();
    }
    signal.removeEventListener("abort", endWait);
    this.#hasEnded = true;
    for (const settle of this.#doubters) settle();
  }

  async #watchMetrics(signal: AbortSignal): Promise<void> {
    const { metricsPath } = this.adapter;
    if (metricsPath === undefined) return;
    while (!signal.aborted) {
      await pause(this.timing.scrapeMs, signal);
      if (!signal.aborted && !this.isResting && this.#numFailed === 0) await this.#scrape(metricsPath, signal);
    }
  }

  async #scrape(metricsPath: string, signal: AbortSignal): Promise<void> {
    try {
      const text = await within(this.timing.answerTimeoutMs, signal, (limited) =>
        askForText(this.target, metricsPath, limited),
      );
      if (!signal.aborted && this.#numFailed === 0) this.listener.onMetrics(this.adapter.parseMetrics(text));
    } catch {
      // Health checks decide whether this matters.
    }
  }

  async #checkHealth(signal: AbortSignal): Promise<void> {
    const { healthTimeoutMs, maxFailedChecks } = this.timing;
    const { problem, isRefused } = await askForHealth(this.adapter, this.target, healthTimeoutMs, signal);
    if (signal.aborted) return;
    this.#numFailed = problem === undefined ? 0 : this.#numFailed + 1;
    // A busy engine may be late, but an engine that refuses connections is gone.
    this.listener.onHealth(problem, isRefused || this.#numFailed >= maxFailedChecks);
  }
}

interface Health {
  readonly problem: string | undefined;
  readonly isRefused: boolean;
}

export async function askForHealth(
  { healthPath }: Adapter,
  target: UpstreamTarget,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Health> {
  const question = `GET ${healthPath}`;
  try {
    const { status } = await within(timeoutMs, signal, (limited) => askEngine(target, healthPath, limited));
    return { problem: status === 200 ? undefined : `expected 200 from ${question}, got ${status}`, isRefused: false };
  } catch (thrown) {
    const { name, code, message } = thrown as {
      readonly name?: string;
      readonly code?: unknown;
      readonly message?: string;
    };
    const got = name === "AbortError" ? `none in ${timeoutMs / 1000} s` : String(code ?? message);
    return { problem: `expected an answer to ${question}, got ${got}`, isRefused: code === "ECONNREFUSED" };
  }
}
