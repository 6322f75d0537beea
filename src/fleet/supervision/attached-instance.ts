/** A server that the fleet did not start: its state comes from health checks alone. */
import type { Logger } from "pino";
import { pause } from "../../core/abort-signals.js";
import type { Adapter } from "../adapters/adapter.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { UpstreamTarget } from "../upstream/upstream.js";
import { capacityOf } from "./engine-run.js";
import { askForHealth, HealthWatch } from "./health-watch.js";
import type { FleetContext } from "./instance.js";
import { type FleetInstance, firstStatus, type InstanceStatus, isComing } from "./instance-status.js";

export class AttachedInstance implements FleetInstance {
  #status: InstanceStatus;
  #isWanted = false;
  #quit = new AbortController();
  #watching: Promise<void> | undefined;
  #watch: HealthWatch | undefined;
  readonly #logger: Logger;

  constructor(
    private readonly spec: ModelSpec,
    index: number,
    private readonly adapter: Adapter,
    private readonly target: UpstreamTarget,
    private readonly fleet: FleetContext,
  ) {
    const id = `${spec.name}-attached-${index}`;
    this.#logger = fleet.logger.child({ instance: id });
    const starts = fleet.starts.get(id) ?? 0;
    this.#status = {
      ...firstStatus(id, spec.name, spec.engine, { isAttached: true, logFile: undefined, starts }),
      target,
    };
  }

  get status(): InstanceStatus {
    return this.#status;
  }

  get isWanted(): boolean {
    return this.#isWanted;
  }

  /** Starts watching the server. */
  async start(): Promise<void> {
    if (this.#isWanted) return;
    this.#isWanted = true;
    await this.#watching;
    this.#quit = new AbortController();
    if (this.target.provider !== undefined) {
      this.#open();
      return;
    }
    this.#set({ state: "starting", reason: undefined });
    this.#watching = this.#live(this.#quit.signal);
  }

  /** Stops sending requests; running ones go on. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    this.#quit.abort();
    await this.#watching;
    this.#set({ state: "stopped", metrics: undefined });
  }

  /** Takes the server back into use after a stop; its process keeps running. */
  async restart(): Promise<void> {
    await this.start();
  }

  hurry(): void {}

  async nudge(): Promise<void> {
    await this.#watch?.nudge();
  }

  #set(change: Partial<InstanceStatus>): void {
    const before = this.#status.state;
    const after = { ...this.#status, ...change };
    this.#status = { ...after, isComing: isComing(after) };
    const { state, reason } = this.#status;
    if (state !== before) this.#logger.info({ state, ...(reason === undefined ? {} : { reason }) }, "instance");
    this.fleet.onChange(this.#status);
  }

  /** A paid API is ready unless requests to it fail: a health check would show little, and may cost money. */
  #open(): void {
    const seats = this.target.maxConcurrency;
    const starts = this.#status.starts + 1;
    this.fleet.starts.set(this.#status.id, starts);
    this.#set({
      state: "ready",
      reason: undefined,
      starts,
      capacity: { seats, kvTokens: undefined, blockSize: undefined },
    });
  }

  async #live(quit: AbortSignal): Promise<void> {
    const { target, fleet } = this;
    const watch = new HealthWatch(this.adapter, target, fleet.timing, {
      onMetrics: (metrics) => this.#set({ metrics }),
      onHealth: (problem, isSure) => this.#onHealth(quit, problem, isSure),
    });
    this.#watch = watch;
    await this.#greet(watch, quit);
    // Call it after a stop too: it ends the wait of all callers of `nudge`.
    await watch.run(quit);
  }

  /** Makes the first check. */
  async #greet(watch: HealthWatch, quit: AbortSignal): Promise<void> {
    const { adapter, target, fleet } = this;
    const { problem } = await askForHealth(adapter, target, fleet.timing.answerTimeoutMs, quit);
    if (quit.aborted) return;
    if (problem === undefined) this.#welcome(quit);
    else {
      this.#set({ state: "failed", reason: problem });
      // Check again soon, rather than after the next regular interval.
      await pause(fleet.timing.healthMs, quit);
      void watch.nudge();
    }
  }

  #onHealth(quit: AbortSignal, problem: string | undefined, isSure: boolean): void {
    const { state } = this.#status;
    if (problem === undefined) {
      // A suspect server was only late, so its cache is intact and `starts` stays.
      if (state === "suspect") this.#set({ state: "ready", reason: undefined });
      else if (state !== "ready") this.#welcome(quit);
    } else if (isSure) this.#set({ state: "failed", reason: problem, metrics: undefined });
    else if (state === "ready") this.#set({ state: "suspect", reason: problem });
  }

  /** A server that was away may be a new process with an empty cache, so its return counts as a start. */
  #welcome(quit: AbortSignal): void {
    const starts = this.#status.starts + 1;
    this.fleet.starts.set(this.#status.id, starts);
    this.#set({ state: "ready", reason: undefined, starts });
    const context = { adapter: this.adapter, spec: this.spec, timing: this.fleet.timing };
    void capacityOf(context, this.target, quit).then((capacity) => {
      if (!quit.aborted) this.#set({ capacity });
    });
  }
}
