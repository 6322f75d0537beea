/**
 * Watches a fleet for its dashboard: figures and events, kept in the data folder if there is one, and alerts on
 * instances.
 */
import { join } from "node:path";
import type { Logger } from "pino";
import type { AlertWatch } from "../../gateway/alerts/alert-watch.js";
import { type EventKind, EventLog } from "../../observe/live/event-log.js";
import { type LatencyTargets, LiveFeed } from "../../observe/live/feed.js";
import { History } from "../../observe/live/history.js";
import { SeriesStore, TENANTS } from "../../observe/live/series-store.js";
import { type TenantSource, TenantWatch } from "../../observe/live/tenant-watch.js";
import type { BreakerState } from "../routing/breaker.js";
import type { InstanceStatus } from "../supervision/instance-status.js";
import { FleetEvents } from "./fleet-events.js";

interface FleetWatchOptions {
  /** The metrics in Prometheus' text format. */
  readonly metrics: () => Promise<string>;
  readonly instances: () => readonly InstanceStatus[];
  readonly breakerState: (instanceId: string) => BreakerState;
  /** Undefined without configured alerts. */
  readonly alerts: () => AlertWatch | undefined;
  /** Called at the start. Undefined: tenants' requests are not counted. */
  readonly tenants: () => TenantSource | undefined;
  /** The dashboard's latency targets; undefined without configured ones. */
  readonly targets: () => LatencyTargets | undefined;
  readonly logger: Logger;
}

/** The figures are read this many times between two checks for alerts. */
const ALERT_LOOKS = 10;

export class FleetWatch {
  readonly #events = new FleetEvents(
    (kind, text) => this.add(kind, text),
    () => Date.now(),
  );
  #live: LiveFeed | undefined;
  #numLooks = 0;

  constructor(private readonly options: FleetWatchOptions) {}

  /** @param dataFolder folder for a history and events that outlast the gateway */
  start(dataFolder: string | undefined): LiveFeed {
    const { metrics, logger } = this.options;
    const source = this.options.tenants();
    const warn = (text: string): void => logger.warn(text);
    const history = openHistory(dataFolder, warn);
    const inFolder = (name: string) =>
      history.isKept && dataFolder !== undefined ? join(dataFolder, name) : undefined;
    const series = new SeriesStore(inFolder("history-parts"), warn);
    const tenants = source && new TenantWatch(source, new SeriesStore(inFolder("history-tenants"), warn, TENANTS));
    const targets = (): LatencyTargets => this.options.targets() ?? {};
    this.#live = new LiveFeed(metrics, history, {
      events: new EventLog(inFolder("events"), warn),
      series,
      tenants,
      targets,
    });
    this.#live.start();
    return this.#live;
  }

  stop(): void {
    this.#live?.stop();
  }

  /** Ignored before the start, when there is no time axis. */
  add(kind: EventKind, text: string): void {
    this.#live?.events.add(kind, text);
  }

  /** Call it with each change of an instance. */
  onStatus(status: InstanceStatus): void {
    this.#events.onStatus(status);
  }

  /** Call it each second. */
  look(): void {
    const { instances, breakerState, alerts, logger } = this.options;
    const bad = this.#events.look(instances(), breakerState);
    if (this.#numLooks++ % ALERT_LOOKS !== 0) return;
    try {
      alerts()?.judgeNow(bad, (id) => this.#events.isUnsure(id));
    } catch (err) {
      logger.error({ err }, "alerts on instances could not be stored");
    }
  }
}

/** Without a usable file, the gateway only lacks its history. */
function openHistory(dataFolder: string | undefined, warn: (text: string) => void): History {
  if (dataFolder === undefined) return new History();
  try {
    return new History(join(dataFolder, "history"), warn);
  } catch (thrown) {
    warn(`the dashboard's history is kept in memory: ${(thrown as Error).message}`);
    return new History();
  }
}
