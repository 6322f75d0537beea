/**
 * Canaries: an extra instance of a model, with changed flags or weights, gets a share of the model's requests for a
 * time. It stops as soon as it is surely worse than the model's other instances; its instance is removed at the end in
 * any case. The operators then change the file or leave it.
 */
import { freemem } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { Logger } from "pino";
import { MillraceError } from "../../core/errors.js";
import { canaryName, isCanaryName } from "../../gateway/canary/canary-name.js";
import { Arm, breachOf, type CanaryLimits, figuresOf, verdictOf } from "../../gateway/canary/comparison.js";
import type { ProxyObserver } from "../../gateway/observer.js";
import type { Policy } from "../../gateway/pipeline.js";
import { RoutePolicy } from "../../gateway/routes/route-policy.js";
import type { ModelRoute } from "../../gateway/routes/route-table.js";
import type { ModelEntry } from "../config/schema.js";
import { estimateBytes } from "../scaling/memory.js";
import type { InstanceStatus } from "../supervision/instance-status.js";
import { sampleRequests } from "./canary-samples.js";

interface CanaryWish {
  /** Further arguments for the engine, after the model's own. */
  readonly args: readonly string[];
  /** File, folder or name of other weights. */
  readonly weights?: string | undefined;
  /** The canary's share of the model's requests; undefined: as many as one of the model's other instances gets. */
  readonly share?: number | undefined;
  readonly minutes: number;
  readonly limits: CanaryLimits;
}

/** starting → running → one of the others, which are final. */
type CanaryState = "starting" | "running" | "passed" | "undecided" | "slower" | "failing" | "stopped";

interface CanaryOptions {
  /** Entry of a model in the current configuration, by name. */
  readonly entryOf: (name: string) => ModelEntry | undefined;
  readonly instances: (model: string) => readonly InstanceStatus[];
  /** Adds a model beside the file's. */
  readonly add: (entry: ModelEntry) => Promise<void>;
  /** Stops the model after its requests end. */
  readonly remove: (model: string) => Promise<void>;
  readonly sessionHeader: () => string;
  readonly onEvent: (text: string) => void;
  readonly logger: Pick<Logger, "error">;
}

const MS_PER_MINUTE = 60_000;

class Canary {
  readonly stable = new Arm();
  readonly canary = new Arm();
  readonly startedMs = Date.now();
  readonly model: string;
  readonly name: string;
  state: CanaryState = "starting";
  because = "";
  share = 0;
  route: ModelRoute | undefined;
  /** Why the first start of the canary's instance failed. */
  startFailure: string | undefined;
  /** On the clock of `performance.now`. */
  #endMs = Number.POSITIVE_INFINITY;

  /** @param entry the model's entry in the configuration at the start */
  constructor(
    readonly entry: ModelEntry,
    readonly wish: CanaryWish,
  ) {
    this.model = entry.name;
    this.name = canaryName(entry.name);
  }

  get isOver(): boolean {
    return this.state !== "starting" && this.state !== "running";
  }

  /** The canary's time begins when its instance is first ready. */
  get msLeft(): number {
    return this.#endMs - performance.now();
  }

  run(): void {
    this.state = "running";
    this.#endMs = performance.now() + this.wish.minutes * MS_PER_MINUTE;
  }

  end(state: CanaryState, because: string): void {
    this.state = state;
    this.because = because;
    this.share = 0;
    this.route = undefined;
  }

  report() {
    const { model, name, state, because, startedMs, wish, share } = this;
    const { args, weights, minutes, limits } = wish;
    return {
      model,
      name,
      state,
      because,
      started: new Date(startedMs).toISOString(),
      args,
      weights: weights ?? null,
      share,
      minutes,
      secondsLeft: state === "running" ? Math.max(0, Math.round(this.msLeft / 1000)) : null,
      limits,
      ...figuresOf(this.canary, this.stable),
    };
  }
}

export type CanaryReport = ReturnType<Canary["report"]>;

export class Canaries {
  /** The last canary of each model. */
  readonly #all = new Map<string, Canary>();
  /** Routes of the canaries that get requests now, by every name of their models. */
  #routes: ReadonlyMap<string, ModelRoute> = new Map();
  #sides: ReadonlyMap<string, Arm> = new Map();

  /** Part of the pipeline twice; `createPolicies` explains why. */
  readonly policy: Policy;
  readonly observer: ProxyObserver = sampleRequests(() => this.#sides);

  constructor(private readonly options: CanaryOptions) {
    const route = new RoutePolicy({
      name: "canary",
      routes: () => this.#routes,
      sessionHeader: options.sessionHeader,
      onFallback: (model, from, errorClass) => {
        // A prompt that is too long for one side is too long for the other: the client's fault, and no failure of the
        // canary.
        const isOwn = errorClass === "unavailable" || errorClass === "timeout";
        if (isOwn && from === canaryName(model)) this.#all.get(model)?.canary.add(FAILED);
      },
    });
    this.policy = {
      name: route.name,
      handle: (request, sink, next) =>
        request.record.notes.has(route.name) ? next(request, sink) : route.handle(request, sink, next),
    };
  }

  /** Throws model_not_found, already_exists, and the errors of adding the instance. */
  async start(name: string, wish: CanaryWish): Promise<CanaryReport> {
    const entry = this.options.entryOf(name);
    if (entry?.model === undefined || isCanaryName(entry.name)) {
      const message = `expected a model with instances of the gateway, got ${JSON.stringify(name.slice(0, 80))}`;
      throw new MillraceError("model_not_found", message, { param: "model" });
    }
    const { name: model } = entry;
    assertRoom(entry, wish.weights);
    if (this.#all.get(model)?.isOver === false) {
      const hint = `DELETE /admin/canaries/${model} stops it`;
      throw new MillraceError("already_exists", `expected no canary of ${model}, got one that runs`, { hint });
    }
    const canary = new Canary(entry, wish);
    this.#all.set(model, canary);
    try {
      await this.options.add(entryOf(canary));
    } catch (thrown) {
      this.#all.delete(model);
      throw thrown;
    }
    this.options.onEvent(`A canary of ${model} starts`);
    return canary.report();
  }

  /** Throws not_found. */
  stop(model: string): CanaryReport {
    const canary = this.#known(model);
    if (!canary.isOver) this.#end(canary, "stopped", "an operator stopped it");
    return canary.report();
  }

  list(): readonly CanaryReport[] {
    return [...this.#all.values()].map((canary) => canary.report());
  }

  /** Throws not_found. */
  report(model: string): CanaryReport {
    return this.#known(model).report();
  }

  /** Names of the canaries' models, including ended ones: requests may still be on their way to them. */
  names(): readonly string[] {
    return [...this.#all.values()].map(({ name }) => name);
  }

  hasCanary(model: string): boolean {
    return this.#routes.has(model);
  }

  /** Notes a failed first start, which ends the canary at the next look: only its flags or weights can be the cause. */
  onStatus({ model, state, pid, reason }: InstanceStatus): void {
    // While the process ends, the reason still lacks its last lines.
    if (state !== "failed" || pid !== undefined || !isCanaryName(model)) return;
    const starting = [...this.#all.values()].find((canary) => canary.name === model && canary.state === "starting");
    if (starting !== undefined) starting.startFailure = reason ?? "its instance does not start";
  }

  /** Judges all canaries, and shares requests with the ready ones. Call it each second. */
  look(): void {
    for (const canary of this.#all.values()) {
      if (canary.isOver) continue;
      const end = this.#judged(canary);
      if (end !== undefined) this.#end(canary, ...end);
      else this.#share(canary);
    }
    this.#direct();
  }

  #known(model: string): Canary {
    const canary = this.#all.get(model);
    if (canary !== undefined) return canary;
    const models = [...this.#all.keys()].join(", ") || "no canaries";
    const message = `expected one of ${models}, got ${JSON.stringify(model.slice(0, 80))}`;
    throw new MillraceError("not_found", message);
  }

  /** @returns the final state of the canary and the reason; undefined: it continues */
  #judged(canary: Canary): readonly [CanaryState, string] | undefined {
    const { model, name, wish, stable, startFailure } = canary;
    if (!isDeepStrictEqual(this.options.entryOf(model), canary.entry))
      return ["stopped", "the model's configuration has changed"];
    if (startFailure !== undefined) return ["failing", startFailure];
    const givenUp = this.options.instances(name).find(({ isGivenUp }) => isGivenUp);
    if (givenUp !== undefined) return ["failing", givenUp.reason ?? "its instance does not start"];
    const breach = breachOf(canary.canary, stable, wish.limits);
    if (breach !== undefined) return [breach.kind, breach.because];
    if (canary.msLeft > 0) return undefined;
    const { hasPassed, because } = verdictOf(canary.canary, stable, wish.limits);
    return [hasPassed ? "passed" : "undecided", because];
  }

  #share(canary: Canary): void {
    const numReady = this.#numReady(canary.model);
    const isReady = this.#numReady(canary.name) > 0;
    if (isReady && canary.state === "starting") canary.run();
    // Without a ready instance of the model, there is no comparison.
    const share = isReady && numReady > 0 ? (canary.wish.share ?? 1 / (numReady + 1)) : 0;
    if (share === canary.share) return;
    canary.share = share;
    // A new rule restarts its turns, so the route is created only when the share changes.
    canary.route = share === 0 ? undefined : routeOf(canary);
  }

  #numReady(model: string): number {
    return this.options.instances(model).filter(({ state }) => state === "ready").length;
  }

  /** Sends new requests along the canaries' routes, and assigns samples to sides by instance. */
  #direct(): void {
    const { instances } = this.options;
    const sharing = [...this.#all.values()].flatMap((canary) =>
      canary.route === undefined ? [] : [{ canary, route: canary.route }],
    );
    const named = sharing.flatMap(({ route }) =>
      [route.name, ...route.aliases].map((name): [string, ModelRoute] => [name, route]),
    );
    const sided = sharing.flatMap(({ canary: { model, name, canary, stable } }) => [
      ...instances(name).map(({ id }): [string, Arm] => [id, canary]),
      ...instances(model).map(({ id }): [string, Arm] => [id, stable]),
    ]);
    this.#routes = new Map(named);
    this.#sides = new Map(sided);
  }

  #end(canary: Canary, state: CanaryState, because: string): void {
    canary.end(state, because);
    this.#direct();
    // Events are public, and a reason may quote an engine's output.
    this.options.onEvent(`The canary of ${canary.model} ends: ${state}`);
    this.options
      .remove(canary.name)
      .catch((err: unknown) => this.options.logger.error({ err }, `removing ${canary.name} failed`));
  }
}

/** Other weights need their own memory; the model's are mapped already. Throws memory_budget. */
function assertRoom({ gpus, options }: ModelEntry, weights: string | undefined): void {
  const needed = weights === undefined || gpus !== undefined ? 0 : estimateBytes(weights, options.kvCacheMemoryBytes);
  if (needed === undefined || needed <= freemem()) return;
  throw new MillraceError("memory_budget", `expected ${needed} bytes of free memory for ${weights}, got ${freemem()}`, {
    hint: "give smaller weights, or stop another model first",
  });
}

/** A request that the canary failed and another instance answered. */
const FAILED = { hasFailed: true, ttftMs: undefined, tpotMs: undefined, durationMs: 0 };

const entryOf = ({ name, wish, entry: { args, model, ...entry } }: Canary): ModelEntry => ({
  ...entry,
  name,
  aliases: [],
  model: wish.weights ?? model,
  args: [...args, ...wish.args],
  instances: 1,
  load: "always",
  attach: [],
  autoscale: {},
});

/** Requests that the canary cannot answer fall back to the model's other instances. */
function routeOf({ model, name, share, entry: { aliases } }: Canary): ModelRoute {
  const to = [
    { model, weight: 1 - share },
    { model: name, weight: share },
  ];
  const back = [model];
  const fallback = { unavailable: back, timeout: back, overload: back, "context-length": back };
  return { name: model, aliases, rules: [{ when: {}, to }], fallback, maxAttempts: 2 };
}
