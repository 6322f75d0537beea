/** Runs the instances of all models. Routing sees it as a pool of upstreams. */
import type { Logger } from "pino";
import { MillraceError } from "../../core/errors.js";
import { ADAPTERS } from "../adapters/index.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { Upstream, UpstreamPool } from "../upstream/upstream.js";
import { AttachedInstance } from "./attached-instance.js";
import { type FleetContext, Instance } from "./instance.js";
import type { FleetInstance, InstanceStatus } from "./instance-status.js";
import { OrphanGuard } from "./orphan-guard.js";
import { DEFAULT_TIMING, type FleetTiming } from "./timing.js";

export interface SupervisorOptions {
  readonly logger: Logger;
  /** Folder for the logs: <id>.log of each instance, and its predecessor <id>.log.1. */
  readonly logFolder: string;
  /** Number of the proxy's running requests on an instance. Absent: the engines' metrics show when they are idle. */
  readonly inFlight?: (id: string) => number;
  readonly timing?: Partial<FleetTiming>;
}

interface Group {
  readonly spec: ModelSpec;
  /** Instances by slot, including stopped ones. */
  readonly instances: Instance[];
  readonly attached: readonly AttachedInstance[];
  /** Being removed; starts no more instances. */
  isLeaving: boolean;
}

/**
 * @example
 *   const supervisor = new Supervisor({ logger, logFolder: "logs" });
 *   const options = { model: "llama.gguf" };
 *   supervisor.addModel({ name: "llama", engine: "millrace", options, args: [], env: {}, host: "127.0.0.1", instances: 2 });
 *   const upstream = await supervisor.whenReady("llama");
 */
export class Supervisor implements UpstreamPool {
  readonly #groups = new Map<string, Group>();
  readonly #listeners = new Set<(status: InstanceStatus) => void>();
  readonly #guard: OrphanGuard;
  readonly #context: FleetContext;
  #isClosing = false;

  constructor({ logger, logFolder, inFlight, timing }: SupervisorOptions) {
    this.#guard = new OrphanGuard((text) => logger.warn(text));
    this.#context = {
      logger,
      logFolder,
      inFlight,
      guard: this.#guard,
      starts: new Map(),
      timing: { ...DEFAULT_TIMING, ...timing },
      onChange: (status) => {
        for (const listener of this.#listeners) {
          try {
            listener(status);
          } catch (thrown) {
            // An error in a listener must not end an engine.
            logger.error({ err: thrown }, "unexpected");
          }
        }
      },
    };
  }

  /** Adds a model and starts its instances in the background. */
  addModel(spec: ModelSpec): void {
    this.#assertOpen();
    this.#assertNew(spec);
    const adapter = ADAPTERS[spec.engine];
    const attached = (spec.attach ?? []).map(
      (target, index) => new AttachedInstance(spec, index, adapter, target, this.#context),
    );
    this.#groups.set(spec.name, { spec, instances: [], attached, isLeaving: false });
    for (const instance of attached) void instance.start();
    void this.setInstances(spec.name, spec.instances);
  }

  /** Removes a model after its instances have finished their requests. */
  async removeModel(name: string): Promise<void> {
    const group = this.#group(name);
    group.isLeaving = true;
    await Promise.all(membersOf(group).map((instance) => instance.stop()));
    this.#groups.delete(name);
  }

  /**
   * Sets the number of running instances, without attached ones. Sleeping instances wake before others start; instances
   * that are not ready, then the least busy ones, stop first. Resolves when the surplus is at rest; starts continue in
   * the
   * background. Ignored for a model that is being removed.
   */
  async setInstances(model: string, count: number): Promise<void> {
    const { spec, instances, isLeaving } = this.#group(model);
    if (!Number.isSafeInteger(count) || count < 0) {
      throw new MillraceError("invalid_option", `expected a number of instances of ${model} from 0 up, got ${count}`);
    }
    if (this.#isClosing || isLeaving) return;
    const wanted = instances.filter((instance) => instance.isWanted);
    const changes: Promise<void>[] = [];
    for (const instance of this.#leastUseful(wanted).slice(0, wanted.length - Math.min(count, wanted.length))) {
      changes.push(spec.scaleDown === "sleep" ? instance.sleep() : instance.stop());
    }
    for (let missing = count - wanted.length; missing > 0; missing--) {
      changes.push((nextToStart(instances) ?? this.#newInstance(model)).start());
    }
    await Promise.all(changes);
  }

  models(): readonly string[] {
    return [...this.#groups.keys()];
  }

  spec(model: string): ModelSpec {
    return this.#group(model).spec;
  }

  upstreams(model: string): readonly InstanceStatus[] {
    const group = this.#groups.get(model);
    return group === undefined ? [] : membersOf(group).map(({ status }) => status);
  }

  /** Every instance of every model. */
  instances(): readonly InstanceStatus[] {
    return this.models().flatMap((model) => this.upstreams(model));
  }

  onChange(listener: (status: InstanceStatus) => void): () => void {
    // A wrapper per call allows registering the same function twice.
    const own = (status: InstanceStatus): void => listener(status);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  async reportFailure(id: string): Promise<void> {
    await this.#find(id)?.nudge();
  }

  /** Replaces the process of an instance after its requests finish. Also starts a given-up instance. */
  restart(id: string): Promise<void> {
    this.#assertOpen();
    const instance = this.#instance(id);
    if (this.#group(instance.status.model).isLeaving) {
      throw new MillraceError(
        "shutting_down",
        `expected an instance of a model that stays, got ${id}, which is being removed`,
        {
          hint: "The model is being removed, or is getting new processes.",
        },
      );
    }
    return instance.restart();
  }

  /** Stops an instance after its running requests. `restart` brings it back. */
  drain(id: string): Promise<void> {
    return this.#instance(id).stop();
  }

  /**
   * Resolves to the first ready instance. Rejects with instance_failed if none will become ready, or when `signal`
   * aborts.
   */
  async whenReady(model: string, signal?: AbortSignal): Promise<Upstream> {
    const group = this.#group(model);
    return await new Promise<Upstream>((resolve, reject) => {
      const settle = (finish: () => void): void => {
        stopListening();
        signal?.removeEventListener("abort", look);
        finish();
      };
      const look = (): void => {
        const members = membersOf(group);
        const ready = members.find(({ status }) => status.state === "ready");
        const hopeful = members.some(({ isWanted, status }) => isWanted && !status.isGivenUp);
        if (ready !== undefined) settle(() => resolve(ready.status));
        else if (!hopeful || signal?.aborted === true) settle(() => reject(notReady(model, members)));
      };
      const stopListening = this.onChange(look);
      signal?.addEventListener("abort", look);
      look();
    });
  }

  /** Stops all instances. @param now do not wait for running requests; also hurries a close under way */
  async close({ now = false } = {}): Promise<void> {
    this.#isClosing = true;
    const members = [...this.#groups.values()].flatMap(membersOf);
    const stopped = Promise.all(members.map((instance) => instance.stop()));
    if (now) for (const instance of members) instance.hurry();
    await stopped;
    this.#guard.close();
  }

  #assertOpen(): void {
    if (!this.#isClosing) return;
    throw new MillraceError("shutting_down", "expected a running fleet, got one that is shutting down");
  }

  #assertNew({ name, engine, instances, attach = [], program }: ModelSpec): void {
    if (this.#groups.has(name)) {
      throw new MillraceError("invalid_option", `expected each model once, got ${name} twice`);
    }
    if (instances > 0 && ADAPTERS[engine].program === undefined && program === undefined) {
      throw new MillraceError("invalid_option", `expected no instances of engine ${engine}, got ${instances}`, {
        hint: `Attach running servers to ${name}, or name the engine to start.`,
      });
    }
    for (const { url } of attach) {
      if (URL.canParse(url)) continue;
      throw new MillraceError("invalid_option", `expected the URL of a server to attach to ${name}, got "${url}"`);
    }
  }

  #group(model: string): Group {
    const group = this.#groups.get(model);
    if (group !== undefined) return group;
    const known = this.models().join(", ");
    throw new MillraceError("model_not_found", `expected the model to be one of ${known || "none"}, got "${model}"`);
  }

  #find(id: string): FleetInstance | undefined {
    return [...this.#groups.values()].flatMap(membersOf).find(({ status }) => status.id === id);
  }

  #instance(id: string): FleetInstance {
    const instance = this.#find(id);
    if (instance !== undefined) return instance;
    throw new MillraceError("not_found", `expected the id of an instance, got "${id}"`);
  }

  #newInstance(model: string): Instance {
    const { spec, instances } = this.#group(model);
    const instance = new Instance(spec, instances.length, ADAPTERS[spec.engine], this.#context);
    instances.push(instance);
    return instance;
  }

  #leastUseful(instances: readonly Instance[]): readonly Instance[] {
    const load = ({ status }: Instance): number =>
      this.#context.inFlight?.(status.id) ?? (status.metrics?.numRunning ?? 0) + (status.metrics?.numWaiting ?? 0);
    const rank = (instance: Instance): number => (instance.status.state === "ready" ? load(instance) : -1);
    return instances.toSorted((a, b) => rank(a) - rank(b) || b.slot - a.slot);
  }
}

function membersOf({ instances, attached }: Group): readonly FleetInstance[] {
  return [...instances, ...attached];
}

/**
 * The next resting instance to start: asleep, otherwise stopped, otherwise still stopping, so that two instances do not
 * use one slot.
 */
function nextToStart(instances: readonly Instance[]): Instance | undefined {
  const atRest = instances.filter(({ isWanted }) => !isWanted);
  return (
    atRest.find(({ status }) => status.state === "asleep") ??
    atRest.find(({ status }) => status.state === "stopped") ??
    atRest[0]
  );
}

function notReady(model: string, members: readonly FleetInstance[]): MillraceError {
  const reasons = members.flatMap(({ status: { id, reason } }) => (reason === undefined ? [] : [`${id} ${reason}`]));
  const got = reasons.length === 0 ? "none that is starting" : reasons.join("; ");
  return new MillraceError("instance_failed", `expected an instance of ${model} to become ready, got: ${got}`, {
    hint: "See the instance's log; `restart` tries again.",
  });
}
