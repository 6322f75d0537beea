/** Turns changes of a fleet's instances into events for the dashboard's time axis and into conditions for alerts. */
import type { Condition } from "../../gateway/alerts/alert-watch.js";
import type { EventKind } from "../../observe/live/event-log.js";
import type { BreakerState } from "../routing/breaker.js";
import type { InstanceStatus } from "../supervision/instance-status.js";

type Status = Pick<InstanceStatus, "id" | "model" | "state" | "starts" | "isGivenUp">;

interface Seen {
  readonly state: InstanceStatus["state"];
  readonly starts: number;
  /** Milliseconds since 1970; undefined: the instance is healthy. */
  readonly badSinceMs: number | undefined;
  readonly openSinceMs: number | undefined;
}

/** A failure that ends within this time, by a restart, is an event but not an alert. */
const PATIENCE_MS = 60_000;

const UNSEEN: Seen = { state: "stopped", starts: 0, badSinceMs: undefined, openSinceMs: undefined };
const BAD: ReadonlySet<InstanceStatus["state"]> = new Set(["failed", "suspect"]);

export class FleetEvents {
  readonly #seen = new Map<string, Seen>();

  constructor(
    private readonly add: (kind: EventKind, text: string) => void,
    private readonly epochMs: () => number,
  ) {}

  /** Call it with each change of an instance. */
  onStatus({ id, state, starts, isGivenUp }: Status): void {
    const before = this.#seen.get(id) ?? UNSEEN;
    const isBad = BAD.has(state);
    // A starting instance may fail again, so it keeps its first failure's time.
    const badSinceMs =
      isBad || state === "starting" ? (before.badSinceMs ?? (isBad ? this.epochMs() : undefined)) : undefined;
    this.#seen.set(id, { ...before, state, starts, badSinceMs });
    if (starts > before.starts && starts > 1) this.add("restart", `${id} starts again, start ${starts}`);
    if (state === before.state) return;
    if (state === "ready") this.add("instance", `${id} is ready`);
    if (state === "failed") this.add("instance", `${id} failed${isGivenUp ? " again and again, and is given up" : ""}`);
    if (state === "suspect") this.add("instance", `${id} does not answer`);
  }

  /** Call often, with all instances. @returns the conditions that have lasted for a minute */
  look(statuses: readonly Status[], breakerState: (id: string) => BreakerState): Condition[] {
    const now = this.epochMs();
    const ids = new Set(statuses.map(({ id }) => id));
    for (const id of this.#seen.keys()) if (!ids.has(id)) this.#seen.delete(id);
    return statuses.flatMap(({ id: instance, model, isGivenUp }) => {
      const before = this.#seen.get(instance) ?? UNSEEN;
      const isOpen = breakerState(instance) !== "closed";
      if (isOpen !== (before.openSinceMs !== undefined))
        this.add("breaker", isOpen ? `The breaker of ${instance} opened` : `The breaker of ${instance} closed`);
      const seen = { ...before, openSinceMs: isOpen ? (before.openSinceMs ?? now) : undefined };
      this.#seen.set(instance, seen);
      const hasLasted = (sinceMs: number | undefined): boolean => sinceMs !== undefined && now - sinceMs >= PATIENCE_MS;
      const down = { metric: "instance_down", model, instance };
      const found: Condition[] = [];
      if (isGivenUp) found.push({ ...down, text: `${instance} of ${model} failed again and again` });
      else if (hasLasted(seen.badSinceMs)) found.push({ ...down, text: `${instance} of ${model} is down` });
      if (hasLasted(seen.openSinceMs)) {
        const text = `the breaker of ${instance} of ${model} stays open: its requests fail`;
        found.push({ metric: "breaker_open", model, instance, text });
      }
      return found;
    });
  }

  /** Whether an instance may be unhealthy: it is starting, or has a failure. */
  isUnsure(id: string): boolean {
    const { state, badSinceMs, openSinceMs } = this.#seen.get(id) ?? UNSEEN;
    return state === "starting" || badSinceMs !== undefined || openSinceMs !== undefined;
  }
}
