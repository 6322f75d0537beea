/** The life of one instance that the fleet starts: start, restart after crashes, drain, sleep, wake and stop. */
import { join } from "node:path";
import type { Logger } from "pino";
import { pause, within } from "../../core/abort-signals.js";
import type { Adapter } from "../adapters/adapter.js";
import { askForText } from "../adapters/engine-http.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { UpstreamTarget } from "../upstream/upstream.js";
import { type RunContext, type RunEnd, runEngine } from "./engine-run.js";
import { askForHealth, type HealthWatch } from "./health-watch.js";
import { InstanceLog } from "./instance-log.js";
import { type FleetInstance, firstStatus, type InstanceStatus, isComing } from "./instance-status.js";
import type { OrphanGuard } from "./orphan-guard.js";
import { RestartPolicy } from "./restart-policy.js";
import type { FleetTiming } from "./timing.js";

const DEFAULT_DRAIN_TIMEOUT_MS = 30_000;
const DRAIN_POLL_MS = 50;
const SLEEP_TIMEOUT_MS = 120_000;

/** Shared by all instances of a fleet. */
export interface FleetContext {
  readonly logger: Logger;
  readonly logFolder: string;
  readonly guard: OrphanGuard;
  readonly timing: FleetTiming;
  readonly onChange: (status: InstanceStatus) => void;
  /**
   * Number of starts by instance id, also of removed instances: a model added again under its old name must differ from
   * the earlier one.
   */
  readonly starts: Map<string, number>;
  /** Number of the proxy's running requests on an instance; undefined: use the engine's own metrics. */
  readonly inFlight: ((id: string) => number) | undefined;
}

export class Instance implements FleetInstance {
  #status: InstanceStatus;
  #isWanted = false;
  /** Lasts from start to stop, across crashes; undefined at rest. */
  #life: Promise<void> | undefined;
  #quit = new AbortController();
  #hurry = new AbortController();
  #watch: HealthWatch | undefined;
  #unhealthySinceMs: number | undefined;
  /** Ends with the last queued operation. Operations run one after another, so a start after a stop waits for it. */
  #operations: Promise<void> = Promise.resolve();
  readonly #policy: RestartPolicy;
  readonly #log: InstanceLog;
  readonly #logger: Logger;

  constructor(
    private readonly spec: ModelSpec,
    readonly slot: number,
    private readonly adapter: Adapter,
    private readonly fleet: FleetContext,
  ) {
    const id = `${spec.name}-${slot}`;
    // A model's name may contain slashes.
    const path = join(fleet.logFolder, encodeURIComponent(id));
    this.#logger = fleet.logger.child({ instance: id });
    this.#log = new InstanceLog(`${path}.log`, (error) =>
      this.#logger.error({ err: error }, "could not write the instance's log"),
    );
    this.#policy = new RestartPolicy(fleet.timing);
    this.#status = firstStatus(id, spec.name, spec.engine, {
      isAttached: false,
      logFile: this.#log.path,
      starts: fleet.starts.get(id) ?? 0,
    });
  }

  get status(): InstanceStatus {
    return this.#status;
  }

  get isWanted(): boolean {
    return this.#isWanted;
  }

  start(): Promise<void> {
    this.#isWanted = true;
    return this.#enqueue(async () => {
      if (this.#status.state === "asleep") await this.#wake();
      else this.#begin();
    });
  }

  stop(): Promise<void> {
    this.#isWanted = false;
    return this.#enqueue(() => this.#end());
  }

  /** Puts the engine to sleep, or stops it if it cannot sleep now. */
  sleep(): Promise<void> {
    this.#isWanted = false;
    return this.#enqueue(() => this.#sleep());
  }

  restart(): Promise<void> {
    this.#isWanted = true;
    return this.#enqueue(async () => {
      await this.#end();
      this.#begin();
    });
  }

  hurry(): void {
    this.#hurry.abort();
  }

  async nudge(): Promise<void> {
    await this.#watch?.nudge();
  }

  #enqueue(operation: () => Promise<void>): Promise<void> {
    const done = this.#operations.then(operation);
    this.#operations = done.catch((thrown: unknown) => this.#logger.error({ err: thrown }, "unexpected"));
    return done;
  }

  #set(change: Partial<InstanceStatus>): void {
    const before = this.#status;
    const after = { ...before, ...change };
    this.#status = { ...after, isComing: isComing(after) };
    const { state, reason } = this.#status;
    if (state !== before.state)
      this.#logger.info({ state, ...(reason === undefined ? {} : { reason: firstLine(reason) }) }, "instance");
    this.fleet.onChange(this.#status);
  }

  #begin(): void {
    if (this.#life !== undefined) return;
    this.#quit = new AbortController();
    this.#hurry = new AbortController();
    this.#policy.forget();
    this.#life = this.#live(this.#quit.signal)
      .catch((thrown: unknown) => this.#logger.error({ err: thrown }, "unexpected"))
      .then(() => this.#log.close())
      .finally(() => {
        this.#life = undefined;
      });
  }

  async #live(quit: AbortSignal): Promise<void> {
    while (!quit.aborted) {
      this.#set({ state: "starting", reason: undefined, isGivenUp: false, metrics: undefined });
      const end = await this.#run(quit);
      this.#set({ pid: undefined, metrics: undefined });
      // A draining or sleeping instance is not restarted.
      if (quit.aborted || !this.#isWanted) break;
      const verdict = this.#verdictOn(end);
      const isGivenUp = verdict.kind !== "retry";
      const reason = isGivenUp ? `${verdict.reason}: ${end.reason}` : end.reason;
      this.#set({ state: "failed", reason, isGivenUp });
      const logged = { reason: firstLine(reason), error: codedError(reason), logFile: this.#log.path };
      if (verdict.kind === "give_up") return this.#logger.error(logged, "given up");
      const delayMs = Math.round(verdict.delayMs);
      if (isGivenUp) this.#logger.error({ ...logged, delayMs }, "paused after a crash loop");
      else this.#logger.warn({ ...logged, delayMs }, "starting again after a crash");
      await pause(verdict.delayMs, quit);
    }
    this.#set({ state: "stopped" });
  }

  #verdictOn(end: RunEnd) {
    if (end.isFinal) return { kind: "give_up", reason: "cannot be started" } as const;
    return this.#policy.crashed(performance.now(), end.wasReady);
  }

  async #run(quit: AbortSignal): Promise<RunEnd> {
    const { spec, slot, adapter, fleet } = this;
    const starts = this.#status.starts + 1;
    const context: RunContext = {
      spec,
      slot,
      adapter,
      timing: fleet.timing,
      guard: fleet.guard,
      log: this.#log,
      folder: this.#log.path.replace(/\.log$/, ""),
      mark: `${fleet.guard.fleetId}:${this.#status.id}:${starts}`,
      hurry: this.#hurry.signal,
    };
    this.#unhealthySinceMs = undefined;
    const end = await runEngine(
      context,
      {
        onNotice: (text) => this.#logger.warn(text),
        onProgress: (text) => {
          this.#logger.info(text);
          this.#set({ reason: text });
        },
        onStarted: (pid) => {
          fleet.starts.set(this.#status.id, starts);
          this.#set({ pid, starts, reason: undefined });
        },
        onReady: (target, capacity, watch) => {
          this.#watch = watch;
          this.#set({ state: "ready", target, capacity });
        },
        onMetrics: (metrics) => this.#set({ metrics }),
        onHealth: (problem, isSure) => this.#isHung(problem, isSure),
        onOver: (reason) => {
          if (this.#isWanted && !quit.aborted) this.#set({ state: "failed", reason, metrics: undefined });
        },
      },
      quit,
    );
    this.#watch = undefined;
    return end;
  }

  /**
   * Takes an unhealthy instance out of use.
   * @returns whether it has been unhealthy for too long and must end; always false while it drains or sleeps
   */
  #isHung(problem: string | undefined, isSure: boolean): boolean {
    const { state } = this.#status;
    if (problem === undefined) {
      this.#unhealthySinceMs = undefined;
      if (state === "failed" || state === "suspect") this.#set({ state: "ready", reason: undefined });
      return false;
    }
    if (state !== "ready" && state !== "suspect" && state !== "failed") return false;
    this.#unhealthySinceMs ??= performance.now();
    if (isSure && state !== "failed") this.#set({ state: "failed", reason: problem, metrics: undefined });
    else if (state === "ready") this.#set({ state: "suspect", reason: problem });
    return performance.now() - this.#unhealthySinceMs >= this.fleet.timing.hungAfterMs;
  }

  async #end(): Promise<void> {
    await this.#drain();
    this.#quit.abort();
    await this.#life;
    this.#set({ state: "stopped", isGivenUp: false });
  }

  /** Waits until the running requests finish, at most for the drain timeout. */
  async #drain(): Promise<void> {
    if (this.#watch === undefined || this.#status.state === "asleep") return;
    this.#set({ state: "draining" });
    const deadlineMs = performance.now() + (this.spec.drainTimeoutMs ?? DEFAULT_DRAIN_TIMEOUT_MS);
    while (this.#watch !== undefined && !this.#hurry.signal.aborted && !(await this.#isIdle())) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return this.#logger.warn("stopping with requests still running: the drain timeout has passed");
      await pause(Math.min(DRAIN_POLL_MS, leftMs), this.#hurry.signal);
    }
  }

  /** Whether no request runs; true if unknown. */
  async #isIdle(): Promise<boolean> {
    const { id, target } = this.#status;
    if (this.fleet.inFlight !== undefined) return this.fleet.inFlight(id) === 0;
    const { metricsPath } = this.adapter;
    if (metricsPath === undefined || target === undefined) return true;
    try {
      const text = await this.#ask((signal) => askForText(target, metricsPath, signal));
      const { numRunning = 0, numWaiting = 0 } = this.adapter.parseMetrics(text);
      return numRunning + numWaiting === 0;
    } catch {
      return true;
    }
  }

  #ask<T>(task: (signal: AbortSignal) => Promise<T>, timeoutMs = this.fleet.timing.answerTimeoutMs): Promise<T> {
    return within(timeoutMs, this.#quit.signal, task);
  }

  async #sleep(): Promise<void> {
    const { sleep } = this.adapter;
    const { target, state } = this.#status;
    if (state === "asleep") return;
    if (sleep === undefined || target === undefined || state !== "ready") return this.#end();
    await this.#drain();
    try {
      await this.#ask((signal) => sleep(target, signal), SLEEP_TIMEOUT_MS);
      if (this.#watch === undefined) throw new Error("the engine ended meanwhile");
      this.#watch.isResting = true;
      this.#set({ state: "asleep", metrics: undefined });
    } catch (thrown) {
      this.#logger.warn({ err: thrown }, "could not sleep: stopping it instead");
      await this.#end();
    }
  }

  async #wake(): Promise<void> {
    const { target } = this.#status;
    try {
      await this.#ask(
        (signal) => this.adapter.wake?.(target as UpstreamTarget, signal) ?? Promise.resolve(),
        SLEEP_TIMEOUT_MS,
      );
      const { problem } = await askForHealth(
        this.adapter,
        target as UpstreamTarget,
        this.fleet.timing.answerTimeoutMs,
        this.#quit.signal,
      );
      if (problem !== undefined) throw new Error(problem);
      if (this.#watch !== undefined) this.#watch.isResting = false;
      this.#set({ state: "ready" });
    } catch (thrown) {
      this.#logger.warn({ err: thrown }, "could not wake up: starting it again");
      await this.#end();
      this.#begin();
    }
  }
}

/**
 * The error with which our own engine ended, for instance "error [model_file_changed]: expected …". It has no text from
 * requests.
 */
function codedError(reason: string): string | undefined {
  return /^error \[\w+\]: .+$/m.exec(reason)?.[0];
}

/**
 * The first line of a reason. Later lines come from the engine and may have text from requests, which must not reach
 * our
 * log.
 */
function firstLine(reason: string): string {
  return reason.split("\n", 1)[0]!.replace("; its last lines:", "");
}
