/**
 * Scales every model to its queue and to the memory budget: evaluates both policies, and passes their decisions to the
 * supervisor.
 */
import { MillraceError } from "../../core/errors.js";
import type { InstanceState, Upstream } from "../upstream/upstream.js";
import { type AutoscaleRules, NO_MEMORY, type ScaleMemory, scale } from "./autoscale.js";
import { decideResidence, type ModelResidence, type ResidenceRules, spareBytes } from "./on-demand.js";
import { type Schedule, scheduledBounds } from "./schedule.js";

export interface KeptModel {
  readonly name: string;
  readonly rules: AutoscaleRules;
  /** Bounds by the clock, which replace those in `rules`. */
  readonly schedule?: Schedule | undefined;
  /** Estimated memory of one instance, until it is measured. */
  readonly estimatedBytes: number;
  /** The configuration gives the memory, so it is not measured. */
  readonly isBytesGiven: boolean;
}

/** The keeper's view of the fleet. */
export interface KeptFleet {
  /** Instances that the fleet itself started. */
  instances(model: string): readonly (Upstream & { readonly pid: number | undefined; readonly isGivenUp: boolean })[];
  numWaiting(model: string): number;
  numInFlight(model: string): number;
  setInstances(model: string, count: number): void;
  /** Resident bytes of a process; undefined if unknown. */
  measure(pid: number): number | undefined;
  now(): number;
  /** Time since the epoch, for schedules. */
  epochMs(): number;
  /** Called when the number of a model's instances changes, with the reason. */
  onScaled(model: string, from: number, to: number, reason: string): void;
}

/** Seats to assume for engines that report none. */
const DEFAULT_SEATS = 16;
/** Load time to assume before the first measurement. */
const FIRST_LOAD_MS = 10_000;

const HOLDING: readonly InstanceState[] = ["starting", "ready", "suspect", "draining"];

/** KV usage from which it predicts how many sequences fit; below, the estimate is too rough. */
const TELLING_KV_USAGE = 0.5;

/**
 * Seats of an instance: the reported number, or fewer if the KV memory would fill up first, judged by the running
 * sequences.
 */
function seatsOf(ready: readonly Upstream[]): number {
  const said = ready.find(({ capacity }) => capacity.seats !== undefined)?.capacity.seats ?? DEFAULT_SEATS;
  const byMemory = ready.flatMap(({ metrics }) => {
    const { kvUsage = 0, numRunning = 0 } = metrics ?? {};
    return kvUsage >= TELLING_KV_USAGE && numRunning > 0 ? [numRunning / kvUsage] : [];
  });
  const mean = byMemory.reduce((sum, each) => sum + each, 0) / byMemory.length;
  return byMemory.length === 0 ? said : Math.max(1, Math.min(said, Math.floor(mean)));
}

/** Whether every instance that is neither stopped nor asleep is given up, so that none will become ready. */
function isGivenUpWhole(own: readonly (Upstream & { readonly isGivenUp: boolean })[]): boolean {
  const awake = own.filter(({ state }) => state !== "stopped" && state !== "asleep");
  return awake.length > 0 && awake.every(({ isGivenUp }) => isGivenUp);
}

class Kept {
  target: number;
  memory: ScaleMemory = NO_MEMORY;
  bytesPerInstance: number;
  loadMs = FIRST_LOAD_MS;
  loadingSinceMs: number | undefined;
  loadedAtMs = 0;
  waitingSinceMs: number | undefined;
  lastUsedMs = Number.NEGATIVE_INFINITY;
  isImpossible = false;
  /** With the bounds that apply now. */
  rules: AutoscaleRules;

  constructor(public model: KeptModel) {
    this.rules = model.rules;
    this.target = model.rules.min;
    this.bytesPerInstance = model.estimatedBytes;
  }
}

export class Keeper {
  readonly #kept = new Map<string, Kept>();

  constructor(
    private readonly fleet: KeptFleet,
    private rules: ResidenceRules,
  ) {}

  /** Sets the models to scale. Known models keep their measurements. */
  configure(models: readonly KeptModel[], rules: ResidenceRules): void {
    this.rules = rules;
    for (const name of [...this.#kept.keys()])
      if (!models.some((model) => model.name === name)) this.#kept.delete(name);
    for (const model of models) {
      const kept = this.#kept.get(model.name);
      if (kept === undefined) this.#kept.set(model.name, new Kept(model));
      else {
        const { estimatedBytes, isBytesGiven } = kept.model;
        kept.model = model;
        kept.rules = model.rules;
        // Earlier measurements belong to another file, or were overridden by the configuration.
        const isOther = estimatedBytes !== model.estimatedBytes || isBytesGiven !== model.isBytesGiven;
        if (isOther) Object.assign(kept, { bytesPerInstance: model.estimatedBytes, loadMs: FIRST_LOAD_MS });
      }
    }
  }

  /** Number of instances the model should have; undefined for a model that the keeper does not scale. */
  target(model: string): number | undefined {
    return this.#kept.get(model)?.target;
  }

  /** Sets the number of instances by hand. It holds until the queue needs another. */
  scaleTo(model: string, count: number): void {
    const kept = this.#kept.get(model);
    if (kept === undefined) return;
    kept.memory = NO_MEMORY;
    this.#set(kept, count, "asked for by the administrator");
  }

  /**
   * Called for a request to a model without a ready instance.
   * @returns whether an instance will come; throws if the model never fits into memory
   */
  demand(name: string): boolean {
    const kept = this.#kept.get(name);
    if (kept === undefined) return false;
    this.tick(name);
    if (kept.isImpossible) {
      const message = `expected ${name} to fit into the memory budget of ${this.rules.budgetBytes} bytes, got ${kept.bytesPerInstance}`;
      throw new MillraceError("memory_budget", message, { hint: "raise memory-budget, or serve a smaller model" });
    }
    return this.#canStart(name);
  }

  /** Whether the model may be unloaded now and would be loaded at the next request. */
  startsOnDemand(name: string): boolean {
    return this.#kept.get(name)?.rules.min === 0 && this.#canStart(name);
  }

  /**
   * Whether an instance can come: a model that made room for another gets its next turn, but a given-up one stays away.
   */
  #canStart(name: string): boolean {
    return !isGivenUpWhole(this.fleet.instances(name));
  }

  /** @param asked a model whose newest request is not yet in `numWaiting` */
  tick(asked?: string): void {
    const nowMs = this.fleet.now();
    for (const kept of this.#kept.values()) this.#applySchedule(kept);
    for (const kept of this.#kept.values()) this.#observe(kept, nowMs, kept.model.name === asked ? 1 : 0);
    const residences = (): ModelResidence[] =>
      [...this.#kept.values()].map((kept) => this.#residence(kept, nowMs, asked));
    const { load, drain, impossible } = decideResidence(residences(), this.rules, nowMs);
    for (const kept of this.#kept.values()) {
      const { rules } = kept;
      const { name } = kept.model;
      kept.isImpossible = impossible.includes(name);
      if (load.includes(name)) {
        kept.loadingSinceMs = nowMs;
        kept.memory = NO_MEMORY;
        this.#set(kept, Math.max(1, rules.min), "requested");
      }
      if (drain.includes(name)) this.#set(kept, 0, "makes room for another model");
    }
    for (const kept of this.#kept.values()) this.#scale(kept, nowMs, spareBytes(residences(), this.rules));
  }

  #applySchedule(kept: Kept): void {
    const { rules, schedule } = kept.model;
    if (schedule === undefined) return;
    kept.rules = { ...rules, ...scheduledBounds(schedule, rules, this.fleet.epochMs(), kept.loadMs) };
  }

  #observe(kept: Kept, nowMs: number, extra: number): void {
    const { name, isBytesGiven } = kept.model;
    const waiting = this.fleet.numWaiting(name) + extra;
    if (waiting === 0) kept.waitingSinceMs = undefined;
    else kept.waitingSinceMs ??= nowMs;
    if (waiting + this.fleet.numInFlight(name) > 0) kept.lastUsedMs = nowMs;
    const ready = this.fleet.instances(name).filter(({ state }) => state === "ready");
    if (ready.length > 0 && kept.loadingSinceMs !== undefined) {
      kept.loadMs = Math.max(1, nowMs - kept.loadingSinceMs);
      kept.loadingSinceMs = undefined;
      kept.loadedAtMs = nowMs;
      kept.lastUsedMs = nowMs;
    }
    if (isBytesGiven || this.rules.budgetBytes === Number.POSITIVE_INFINITY) return;
    const measured = ready.flatMap(({ pid }) => (pid === undefined ? [] : (this.fleet.measure(pid) ?? [])));
    // KV memory fills while the model serves, so the largest measurement counts.
    kept.bytesPerInstance = Math.max(kept.bytesPerInstance, ...measured);
  }

  #residence(kept: Kept, nowMs: number, asked: string | undefined): ModelResidence {
    const { rules } = kept;
    const { name } = kept.model;
    // Instances that are asleep, stopped or failed hold no memory.
    const own = this.fleet.instances(name);
    const live = own.filter(({ state }) => HOLDING.includes(state));
    const isReady = live.some(({ state }) => state === "ready");
    const count = Math.max(kept.target, live.length);
    // A given-up model uses no memory, and its requests do not count, until it is started by hand.
    const isLost = isGivenUpWhole(own);
    const isWanted = kept.target > 0 && !isLost;
    const state = isWanted ? (isReady ? "loaded" : "loading") : live.length > 0 ? "draining" : "unloaded";
    return {
      name,
      state,
      // For an unloaded model, the memory to load it.
      numBytes: Math.max(count, rules.min, 1) * kept.bytesPerInstance,
      isPinned: rules.min > 0,
      waiting: isLost ? 0 : this.fleet.numWaiting(name) + (name === asked ? 1 : 0),
      waitingSinceMs: kept.waitingSinceMs ?? nowMs,
      inFlight: this.fleet.numInFlight(name),
      lastUsedMs: kept.lastUsedMs,
      loadedAtMs: kept.loadedAtMs,
      loadMs: kept.loadMs,
    };
  }

  #scale(kept: Kept, nowMs: number, spare: number): void {
    const { rules } = kept;
    const { name } = kept.model;
    if (kept.target === 0 && rules.min === 0) return;
    const own = this.fleet.instances(name);
    const ready = own.filter(({ state }) => state === "ready");
    // Given-up instances have no seats and will not come.
    const numLost = Math.min(kept.target, own.filter(({ isGivenUp }) => isGivenUp).length);
    const seats = seatsOf(ready);
    // Sent requests may wait in the engine: one without reported seats gets every request at once.
    const queued = ready.reduce((sum, { metrics }) => sum + (metrics?.numWaiting ?? 0), 0);
    const sample = {
      nowMs,
      seats,
      running: Math.max(0, this.fleet.numInFlight(name) - queued),
      waiting: this.fleet.numWaiting(name) + queued,
      ready: Math.min(ready.length, kept.target - numLost),
      // Other missing instances are starting, waking, or restarting after a crash.
      starting: Math.max(0, kept.target - numLost - ready.length),
    };
    const left = { ...rules, min: Math.max(0, rules.min - numLost), max: Math.max(0, rules.max - numLost) };
    const { target: numAlive, reason, memory } = scale(left, kept.memory, sample);
    const target = numAlive + numLost;
    kept.memory = memory;
    const affordable = kept.target + Math.max(0, Math.floor(spare / Math.max(1, kept.bytesPerInstance)));
    const allowed = target > kept.target ? Math.max(rules.min, Math.min(target, affordable)) : target;
    if (allowed !== kept.target) this.#set(kept, allowed, reason ?? "min and max");
  }

  #set(kept: Kept, count: number, reason: string): void {
    if (count === kept.target) return;
    const { name } = kept.model;
    this.fleet.onScaled(name, kept.target, count, reason);
    kept.target = count;
    this.fleet.setInstances(name, count);
  }
}
