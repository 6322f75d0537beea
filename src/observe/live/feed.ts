/**
 * Sends the dashboard its figures: one event a second to each watcher, and the history of the last hour, day and week.
 */

import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";
import { snakeNames } from "../../core/snake-names.js";
import { type Binding, bindingOf } from "./binding.js";
import { EventLog } from "./event-log.js";
import { EVERY_MS, type History, WINDOW_NAMES, type WindowName } from "./history.js";
import { HistoryJson } from "./history-json.js";
import {
  isFigure,
  keyOf,
  type Load,
  loadBetween,
  PART_KINDS,
  type Part,
  partOf,
  type Reading,
  readingOf,
  readingsOfParts,
} from "./load.js";
import { parseMetrics, type Sample } from "./metrics-text.js";
import { SeriesStore } from "./series-store.js";
import type { TenantWatch } from "./tenant-watch.js";

/** Time between two figures while somebody watches. */
const LIVE_MS = 1000;
/** Live quantiles and shares cover this much time, since they need more requests than a second has. */
const LONG_MS = 30_000;
const MOST_WATCHERS = 100;
/** Limit of events queued for a watcher that does not read; further ones are dropped. */
const MOST_WAITING = 10;
/** Limit of a window's events, newest first, so that a chart stays legible. */
const MOST_EVENTS = 100;

type Watcher = ReadableStreamDefaultController<Uint8Array>;

/** Query parameters of a request for figures. */
interface Query {
  readonly window?: string | undefined;
  readonly model?: string | undefined;
  readonly instance?: string | undefined;
  readonly tenant?: string | undefined;
}

interface Watched {
  readonly key: string;
  /** Whether the watcher still has the right to it. */
  readonly isAllowed: () => boolean;
  readonly isOperator: boolean;
}

/** The operator's targets for 95 requests in 100, in milliseconds. */
export interface LatencyTargets {
  readonly ttftMs?: number | undefined;
  readonly tpotMs?: number | undefined;
}

/** A tenant has no `binding`, since its requests wait for the whole server. */
type LiveLoad = Load & { readonly binding?: Binding };

/** Key of the whole server. */
const WHOLE = "";

const encoder = new TextEncoder();

/** The parts of a feed that a server may lack. */
interface LiveFeedParts {
  /** In memory if absent. */
  readonly events?: EventLog | undefined;
  /** History of the parts; in memory if absent. */
  readonly series?: SeriesStore | undefined;
  /** Absent: tenants have no figures. */
  readonly tenants?: TenantWatch | undefined;
  readonly targets?: (() => LatencyTargets) | undefined;
}

export class LiveFeed {
  readonly events: EventLog;
  readonly #series: SeriesStore;
  readonly #tenants: TenantWatch | undefined;
  readonly #readTargets: () => LatencyTargets;
  readonly #json = new HistoryJson();
  readonly #watchers = new Map<Watcher, Watched>();
  /** The last seconds' readings of the whole server and of each watched part. */
  readonly #readings = new Map<string, readonly Reading[]>();
  /** Keys of the parts in the metrics. */
  #parts: ReadonlySet<string> = new Set();
  /** The history slot with the parts' latest readings. */
  #slot: number | undefined;
  /** Undefined while a reading is in progress. */
  #timer: NodeJS.Timeout | undefined;
  /** Start of the latest reading. */
  #readMs = 0;
  #isOver = false;

  /** @param readText the metrics in Prometheus' text format */
  constructor(
    private readonly readText: () => Promise<string>,
    private readonly history: History,
    { events = new EventLog(), series = new SeriesStore(), tenants, targets = () => ({}) }: LiveFeedParts = {},
  ) {
    this.events = events;
    this.#series = series;
    this.#tenants = tenants;
    this.#readTargets = targets;
  }

  start(): void {
    this.events.add("start", "The server started");
    void this.#turn();
  }

  /** Ends every stream. */
  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.keys()) watcher.close();
    this.#watchers.clear();
    this.history.close();
    this.#series.close();
    this.#tenants?.close();
  }

  /**
   * Server-sent events, each a load. Beyond a hundred watchers, the oldest one's stream ends. Operators have a separate
   * hundred, so that nobody without a key ends their streams.
   *
   * @param isAllowed called before each event; the stream ends when it returns false
   * @throws invalid_parameter, not_found
   */
  live(query: Query = {}, isAllowed: () => boolean = () => true, isOperator = false): Response {
    const key = this.#keyIn(query);
    let own: Watcher | undefined;
    const body = new ReadableStream<Uint8Array>(
      {
        // Only a body that is read counts as a watcher: the answer to HEAD does not.
        pull: (watcher) => {
          if (own !== undefined) return;
          own = watcher;
          if (this.#isOver) return watcher.close();
          // Sends bytes at once, from which clients and proxies see that the stream has begun.
          watcher.enqueue(encoder.encode(": figures follow\n\n"));
          this.#join(watcher, { key, isAllowed, isOperator });
        },
        cancel: () => {
          if (own !== undefined) this.#watchers.delete(own);
        },
      },
      { highWaterMark: 0 },
    );
    const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no" };
    return new Response(body, { headers });
  }

  /** @throws invalid_parameter, not_found */
  past(query: Query): Response {
    const { window = "hour" } = query;
    const name = WINDOW_NAMES.find((each) => each === window);
    if (name === undefined) {
      const expected = `expected window to be one of ${WINDOW_NAMES.join(", ")}`;
      throw new MillraceError("invalid_parameter", `${expected}, got ${shown(window)}`, { param: "window" });
    }
    return uncachedJson(this.#past(name, this.#keyIn(query)));
  }

  /** The models and instances with figures, and for operators the tenants. */
  parts(withTenants = false): Response {
    const tenants = withTenants ? this.#tenants : undefined;
    const current = new Set([...this.#parts, ...(tenants?.current() ?? [])]);
    const keys = new Set([...current, ...this.#series.keys(), ...(tenants?.keys() ?? [])]);
    const series = [...keys].flatMap((key) => {
      const part = partOf(key);
      return part === undefined ? [] : [{ ...part, isCurrent: current.has(key) }];
    });
    const rank = ({ kind }: Part): number => PART_KINDS.indexOf(kind);
    series.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
    return uncached(snakeNames(listBody(series)));
  }

  /** The tenants' present figures; empty if tenants are not counted. */
  tenantsNow(): Response {
    return uncached(snakeNames(listBody(this.#tenants?.now() ?? [])));
  }

  /** @returns JSON */
  #past(window: WindowName, key: string): string {
    const now = Date.now();
    const { history, events } = this;
    const found = key === WHOLE ? history : (this.#series.find(key) ?? this.#tenants?.find(key));
    const loads = found === undefined ? "[]" : this.#json.of(found, window, now);
    const others = snakeNames({
      window,
      everyMs: history.everyMs(window),
      targets: this.#targets(),
      events: events.since(now - history.lengthMs(window), now).slice(-MOST_EVENTS),
    });
    return `${JSON.stringify(others).slice(0, -1)},"loads":${loads}}`;
  }

  #targets(): LatencyTargets {
    const { ttftMs, tpotMs } = this.#readTargets();
    return { ttftMs, tpotMs };
  }

  #keyIn(query: Query): string {
    const [part, another] = PART_KINDS.flatMap((kind) => {
      const name = query[kind];
      return name === undefined ? [] : [{ kind, name }];
    });
    if (part === undefined) return WHOLE;
    if (another !== undefined) {
      const message = `expected one of ${PART_KINDS.join(", ")}, got ${part.kind} and ${another.kind}`;
      throw new MillraceError("invalid_parameter", message, { param: another.kind });
    }
    const key = keyOf(part);
    if (this.#parts.has(key) || this.#series.find(key) !== undefined) return key;
    if (this.#tenants?.current().has(key) === true || this.#tenants?.find(key) !== undefined) return key;
    const expected = { model: "a model of a fleet", instance: "an instance of a fleet", tenant: "a tenant" }[part.kind];
    throw new MillraceError("not_found", `expected the name of ${expected}, got ${shown(part.name)}`, {
      hint: "GET /watch/series lists them",
    });
  }

  #join(watcher: Watcher, watched: Watched): void {
    this.#watchers.set(watcher, watched);
    const alike = [...this.#watchers].filter(([, { isOperator }]) => isOperator === watched.isOperator);
    if (alike.length > MOST_WATCHERS) {
      const [oldest] = alike[0]!;
      this.#watchers.delete(oldest);
      oldest.close();
    }
    // The next reading may be ten seconds away.
    if (this.#timer !== undefined) this.#plan(LIVE_MS - (performance.now() - this.#readMs));
  }

  #plan(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#turn(), Math.max(0, delayMs));
    this.#timer.unref();
  }

  /** Takes a reading, and schedules the next. */
  async #turn(): Promise<void> {
    this.#timer = undefined;
    this.#readMs = performance.now();
    try {
      this.#take(parseMetrics(await this.readText(), isFigure), Date.now());
    } catch (thrown) {
      this.#readings.clear();
      const message = `expected metrics that can be read, got ${(thrown as Error).message}`;
      this.#send(() => ({ error: { message, code: "internal_error" } }));
    }
    if (!this.#isOver) this.#plan(this.#watchers.size > 0 ? LIVE_MS : EVERY_MS);
  }

  #take(samples: readonly Sample[], atMs: number): void {
    if (this.#isOver) return;
    const now = readingOf(samples, atMs);
    this.history.add(now);
    const load = this.#next(WHOLE, now);
    const loads = new Map([[WHOLE, load], ...this.#takeParts(samples, atMs)]);
    if (load === undefined) return;
    const events = this.events.takeNew();
    const targets = this.#targets();
    this.#send((key) => {
      const own = loads.get(key);
      if (own === undefined) return undefined;
      const figures = snakeNames({ ...own, targets });
      return events.length === 0 ? figures : { ...figures, events };
    });
  }

  /** Takes the watched parts; all parts when the history needs a reading. */
  #takeParts(samples: readonly Sample[], atMs: number): readonly (readonly [string, LiveLoad | undefined])[] {
    const slot = Math.floor(atMs / EVERY_MS);
    const isDue = slot !== this.#slot;
    this.#slot = slot;
    const watched = new Set([...this.#watchers.values()].map(({ key }) => key));
    watched.delete(WHOLE);
    for (const key of this.#readings.keys()) if (key !== WHOLE && !watched.has(key)) this.#readings.delete(key);
    if (isDue) {
      const all = readingsOfParts(samples, atMs);
      this.#parts = new Set(all.keys());
      this.#series.add(all);
      this.#tenants?.take(atMs);
    }
    if (watched.size === 0) return [];
    const isTenant = (key: string): boolean => partOf(key)?.kind === "tenant";
    const ofTenants = this.#tenants?.readings(atMs, [...watched].filter(isTenant)) ?? [];
    const others = new Set([...watched].filter((key) => !isTenant(key)));
    const ofParts = others.size === 0 ? [] : readingsOfParts(samples, atMs, others);
    return [...ofParts, ...ofTenants].map(([key, now]) => [key, this.#next(key, now)] as const);
  }

  /** @returns undefined after the first reading */
  #next(key: string, now: Reading): LiveLoad | undefined {
    const earlier = this.#readings.get(key) ?? [];
    const before = earlier.at(-1);
    const isRecent = ({ atMs }: Reading): boolean => atMs >= now.atMs - LONG_MS && atMs < now.atMs;
    const readings = [...earlier.filter(isRecent), now];
    this.#readings.set(key, readings);
    if (before === undefined || before.atMs >= now.atMs) return undefined;
    const load = loadBetween(before, now, readings[0]);
    return partOf(key)?.kind === "tenant" ? load : { ...load, binding: bindingOf(load, before.waiting) };
  }

  /** @param eventOf returns the event for a watched part's key */
  #send(eventOf: (key: string) => object | undefined): void {
    const sent = new Map<string, Uint8Array | undefined>();
    for (const [watcher, { key, isAllowed }] of this.#watchers) {
      if (!isAllowed()) {
        this.#watchers.delete(watcher);
        watcher.close();
        continue;
      }
      if (!sent.has(key)) {
        const event = eventOf(key);
        sent.set(key, event && encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
      }
      const bytes = sent.get(key);
      if (bytes !== undefined && (watcher.desiredSize ?? 0) > -MOST_WAITING) watcher.enqueue(bytes);
    }
  }
}

const shown = (text: string): string => JSON.stringify(text.slice(0, 40));

const uncached = (body: object): Response => uncachedJson(JSON.stringify(body));

const uncachedJson = (json: string): Response =>
  new Response(json, { headers: { "Content-Type": "application/json", "Cache-Control": "no-store" } });
