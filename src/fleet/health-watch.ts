/** Asks a running engine for its metrics and, less often, for its health, until it is told to end. */
import type { Adapter, EngineMetrics } from "./adapters/adapter.js";
import { askEngine, askForText } from "./adapters/engine-http.js";
import { type FleetTiming, pause, within } from "./timing.js";
import type { UpstreamTarget } from "./upstream.js";

export interface HealthListener {
  onMetrics(metrics: EngineMetrics): void;
  /** After every check. @param problem undefined: healthy */
  onHealth(problem: string | undefined): void;
}

export class HealthWatch {
  /** Nothing is asked: an engine that sleeps might not survive the question. */
  isResting = false;
  #waiting = new AbortController();
  #isNudged = false;
  #numFailed = 0;

  constructor(
    private readonly adapter: Adapter,
    private readonly target: UpstreamTarget,
    private readonly timing: FleetTiming,
    private readonly listener: HealthListener,
  ) {}

  /** Somebody has reason to doubt its health: asks at once. */
  nudge(): void {
    this.#isNudged = true;
    this.#waiting.abort();
  }

  async run(signal: AbortSignal): Promise<void> {
    const endWait = (): void => this.#waiting.abort();
    signal.addEventListener("abort", endWait);
    for (let round = 1; !signal.aborted; round++) {
      this.#waiting = new AbortController();
      if (!this.#isNudged) await pause(this.timing.scrapeMs, this.#waiting.signal);
      if (signal.aborted) break;
      if (this.isResting) {
        this.#isNudged = false;
        continue;
      }
      const isDue = this.#isNudged || this.#numFailed > 0 || round % this.timing.scrapesPerHealthCheck === 0;
      this.#isNudged = false;
      if (isDue && !(await this.#checkHealth(signal))) continue;
      if (!(await this.#scrape(signal)) && !isDue) await this.#checkHealth(signal);
    }
    signal.removeEventListener("abort", endWait);
  }

  /** @returns whether there is no reason to doubt it */
  async #scrape(signal: AbortSignal): Promise<boolean> {
    const { metricsPath } = this.adapter;
    if (metricsPath === undefined) return true;
    try {
      const text = await within(this.timing.answerTimeoutMs, signal, (limited) =>
        askForText(this.target, metricsPath, limited),
      );
      if (!signal.aborted) this.listener.onMetrics(this.adapter.parseMetrics(text));
      return true;
    } catch {
      // Its health says whether this matters.
      return false;
    }
  }

  async #checkHealth(signal: AbortSignal): Promise<boolean> {
    const { problem, isRefused } = await askForHealth(this.adapter, this.target, this.timing, signal);
    if (signal.aborted) return false;
    this.#numFailed = problem === undefined ? 0 : this.#numFailed + 1;
    // Busy engines may be late, but whoever refuses connections is not there.
    if (problem === undefined || isRefused || this.#numFailed >= this.timing.maxFailedChecks) {
      this.listener.onHealth(problem);
    }
    return problem === undefined;
  }
}

export interface Health {
  readonly problem: string | undefined;
  readonly isRefused: boolean;
}

export async function askForHealth(
  { healthPath }: Adapter,
  target: UpstreamTarget,
  { answerTimeoutMs }: FleetTiming,
  signal: AbortSignal,
): Promise<Health> {
  const question = `GET ${healthPath}`;
  try {
    const { status } = await within(answerTimeoutMs, signal, (limited) => askEngine(target, healthPath, limited));
    return { problem: status === 200 ? undefined : `expected 200 from ${question}, got ${status}`, isRefused: false };
  } catch (thrown) {
    const { name, code, message } = thrown as {
      readonly name?: string;
      readonly code?: unknown;
      readonly message?: string;
    };
    const got = name === "AbortError" ? `none in ${answerTimeoutMs / 1000} s` : String(code ?? message);
    return { problem: `expected an answer to ${question}, got ${got}`, isRefused: code === "ECONNREFUSED" };
  }
}
