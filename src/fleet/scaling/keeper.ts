/** Keeps as many instances of each model as its queue asks for and memory allows: asks the two policies, and has the supervisor do what they say. */
import { MillraceError } from "../../core/errors.js";
import type { InstanceState, Upstream } from "../upstream/upstream.js";
import { type AutoscaleRules, NO_MEMORY, type ScaleMemory, scale } from "./autoscale.js";
import { decideResidence, type ModelResidence, type ResidenceRules, spareBytes } from "./on-demand.js";

export interface KeptModel {
  readonly name: string;
  readonly rules: AutoscaleRules;
  /** Of one instance, until one has been measured. */
  readonly estimatedBytes: number;
  /** Given by the configuration: not measured. */
  readonly isBytesGiven: boolean;
}

/** What the keeper sees of the fleet, and does with it. */
export interface KeptFleet {
  /** Instances of ours, not those that are only attached. */
  instances(model: string): readonly (Upstream & { readonly pid: number | undefined; readonly isGivenUp: boolean })[];
  numWaiting(model: string): number;
  numInFlight(model: string): number;
  setInstances(model: string, count: number): void;
  /** Resident bytes of a process; undefined: not known. */
  measure(pid: number): number | undefined;
  now(): number;
  /** Why a model gets more or fewer instances. */
  onScaled(model: string, from: number, to: number, reason: string): void;
}

/** Where no engine says how many sequences it holds at once. */
const DEFAULT_SEATS = 16;
/** Until a load has been measured. */
const FIRST_LOAD_MS = 10_000;

const HOLDING: readonly InstanceState[] = ["starting", "ready", "suspect", "draining"];

/** Below this, what sequences take of the KV memory says little about how many would fit. */
const TELLING_KV_USAGE = 0.5;

/** Sequences an instance holds at once: what it says, or fewer where its KV memory is full before, at the lengths of those that run. */
function seatsOf(ready: readonly Upstream[]): number {
  const said = ready.find(({ capacity }) => capacity.seats !== undefined)?.capacity.seats ?? DEFAULT_SEATS;
  const byMemory = ready.flatMap(({ metrics }) => {
    const { kvUsage = 0, numRunning = 0 } = metrics ?? {};
    return kvUsage >= TELLING_KV_USAGE && numRunning > 0 ? [numRunning / kvUsage] : [];
  });
  const mean = byMemory.reduce((sum, each) => sum + each, 0) / byMemory.length;
  return byMemory.length === 0 ? said : Math.max(1, Math.min(said, Math.floor(mean)));
}

/** Whether whatever is not at rest has been given up, so that nothing is on its way. */
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

  constructor(public model: KeptModel) {
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

  /** The models to keep from now on: those that stay keep what is known of them. */
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
        // What was measured was another model, or is to be measured from now on.
        const isOther = estimatedBytes !== model.estimatedBytes || isBytesGiven !== model.isBytesGiven;
        if (isOther) Object.assign(kept, { bytesPerInstance: model.estimatedBytes, loadMs: FIRST_LOAD_MS });
      }
    }
  }

  /** Instances there should be; undefined: not one of ours. */
  target(model: string): number | undefined {
    return this.#kept.get(model)?.target;
  }

  /** Somebody wants it so: within min and max until the queue says otherwise. */
  scaleTo(model: string, count: number): void {
    const kept = this.#kept.get(model);
    if (kept === undefined) return;
    kept.memory = NO_MEMORY;
    this.#set(kept, count, "asked for by the administrator");
  }

  /** For a model of which nothing is ready. @returns whether waiting makes sense; throws where memory never allows it */
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

  /** Whether a model may have no instance until it is asked for, and would get one then. */
  startsOnDemand(name: string): boolean {
    return this.#kept.get(name)?.model.rules.min === 0 && this.#canStart(name);
  }

  /** Of a model that is being unloaded for another one, the next turn comes; of one that cannot be started, nothing does. */
  #canStart(name: string): boolean {
    return !isGivenUpWhole(this.fleet.instances(name));
  }

  /** @param asked a model that a request waits for, though it is not counted yet */
  tick(asked?: string): void {
    const nowMs = this.fleet.now();
    for (const kept of this.#kept.values()) this.#observe(kept, nowMs, kept.model.name === asked ? 1 : 0);
    const residences = (): ModelResidence[] =>
      [...this.#kept.values()].map((kept) => this.#residence(kept, nowMs, asked));
    const { load, drain, impossible } = decideResidence(residences(), this.rules, nowMs);
    for (const kept of this.#kept.values()) {
      const { name, rules } = kept.model;
      kept.isImpossible = impossible.includes(name);
      if (load.includes(name)) {
        kept.loadingSinceMs = nowMs;
        kept.memory = NO_MEMORY;
        this.#set(kept, Math.max(1, rules.min), "asked for");
      }
      if (drain.includes(name)) this.#set(kept, 0, "makes room for another model");
    }
    for (const kept of this.#kept.values()) this.#scale(kept, nowMs, spareBytes(residences(), this.rules));
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
    // KV memory fills while it serves: what was needed once may be needed again.
    kept.bytesPerInstance = Math.max(kept.bytesPerInstance, ...measured);
  }

  #residence(kept: Kept, nowMs: number, asked: string | undefined): ModelResidence {
    const { name, rules } = kept.model;
    // Those that sleep, stopped or failed hold no memory.
    const own = this.fleet.instances(name);
    const live = own.filter(({ state }) => HOLDING.includes(state));
    const isReady = live.some(({ state }) => state === "ready");
    const count = Math.max(kept.target, live.length);
    // Given up, it takes nothing and is waited for in vain, until somebody starts it anew.
    const isLost = isGivenUpWhole(own);
    const isWanted = kept.target > 0 && !isLost;
    const state = isWanted ? (isReady ? "loaded" : "loading") : live.length > 0 ? "draining" : "unloaded";
    return {
      name,
      state,
      // What it would take, where it is not there.
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
    const { name, rules } = kept.model;
    if (kept.target === 0 && rules.min === 0) return;
    const own = this.fleet.instances(name);
    const ready = own.filter(({ state }) => state === "ready");
    // Those that were given up seat nobody, and are not on their way.
    const numLost = Math.min(kept.target, own.filter(({ isGivenUp }) => isGivenUp).length);
    const seats = seatsOf(ready);
    // What was sent on may wait there: an engine that does not say how many seats it has gets everything.
    const queued = ready.reduce((sum, { metrics }) => sum + (metrics?.numWaiting ?? 0), 0);
    const sample = {
      nowMs,
      seats,
      running: Math.max(0, this.fleet.numInFlight(name) - queued),
      waiting: this.fleet.numWaiting(name) + queued,
      ready: Math.min(ready.length, kept.target - numLost),
      // Whatever should be there and is not: starting, waking, or on its way back after a crash.
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
