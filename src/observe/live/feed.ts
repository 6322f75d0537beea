/** Sends the dashboard its figures: one event a second to each watcher, and the history of the last hour, day and week. */
import { MillraceError } from "../../core/errors.js";
import { snakeNames } from "../../core/snake-names.js";
import { EventLog } from "./event-log.js";
import { EVERY_MS, type History, WINDOW_NAMES, type WindowName } from "./history.js";
import { loadBetween, type Reading, readingOf } from "./load.js";
import { parseMetrics } from "./metrics-text.js";

/** Between two figures while somebody watches. */
const LIVE_MS = 1000;
/** Quantiles and shares of live figures are those of this much time: they need more requests than a second has. */
const LONG_MS = 30_000;
const MOST_WATCHERS = 100;
/** Events that a watcher who does not read may leave waiting; further ones are left out. */
const MOST_WAITING = 10;
/** The newest of a window, so that a chart stays legible. */
const MOST_EVENTS = 100;

type Watcher = ReadableStreamDefaultController<Uint8Array>;

const encoder = new TextEncoder();

export class LiveFeed {
  readonly #watchers = new Set<Watcher>();
  #readings: readonly Reading[] = [];
  /** Undefined while metrics are read. */
  #timer: NodeJS.Timeout | undefined;
  /** Start of the latest reading. */
  #readMs = 0;
  #isOver = false;

  /** @param readText the metrics in Prometheus' text format */
  constructor(
    private readonly readText: () => Promise<string>,
    private readonly history: History,
    readonly events = new EventLog(),
  ) {}

  start(): void {
    this.events.add("start", "The server started");
    void this.#turn();
  }

  /** Ends every stream. */
  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers.clear();
    this.history.close();
  }

  /** Server-sent events, each a load. Of more than a hundred watchers, the stream of the oldest one ends. */
  live(): Response {
    let own: Watcher | undefined;
    const body = new ReadableStream<Uint8Array>(
      {
        // Only a body that is read makes a watcher: the answer to HEAD is not.
        pull: (watcher) => {
          if (own !== undefined) return;
          own = watcher;
          if (this.#isOver) return watcher.close();
          // Bytes at once: clients and proxies then know that the stream has begun.
          watcher.enqueue(encoder.encode(": figures follow\n\n"));
          this.#join(watcher);
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

  /** @param window of the query @throws invalid_parameter */
  past(window: string | undefined): Response {
    const name = WINDOW_NAMES.find((each) => each === (window ?? "hour"));
    if (name === undefined) {
      const got = JSON.stringify(window!.slice(0, 40));
      throw new MillraceError(
        "invalid_parameter",
        `expected window to be one of ${WINDOW_NAMES.join(", ")}, got ${got}`,
        {
          param: "window",
        },
      );
    }
    return Response.json(this.#past(name), { headers: { "Cache-Control": "no-store" } });
  }

  #past(window: WindowName): object {
    const now = Date.now();
    const { history, events } = this;
    return snakeNames({
      window,
      everyMs: history.everyMs(window),
      loads: history.read(window, now),
      events: events.since(now - history.lengthMs(window), now).slice(-MOST_EVENTS),
    });
  }

  #join(watcher: Watcher): void {
    this.#watchers.add(watcher);
    const [oldest] = this.#watchers;
    if (this.#watchers.size > MOST_WATCHERS) {
      this.#watchers.delete(oldest!);
      oldest!.close();
    }
    // The next reading may be ten seconds away.
    if (this.#timer !== undefined) this.#plan(LIVE_MS - (performance.now() - this.#readMs));
  }

  #plan(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#turn(), Math.max(0, delayMs));
    this.#timer.unref();
  }

  /** Reads, and plans the next reading. */
  async #turn(): Promise<void> {
    this.#timer = undefined;
    this.#readMs = performance.now();
    try {
      this.#take(readingOf(parseMetrics(await this.readText()), Date.now()));
    } catch (thrown) {
      this.#readings = [];
      const message = `expected metrics that can be read, got ${(thrown as Error).message}`;
      this.#send({ error: { message, code: "internal_error" } });
    }
    if (!this.#isOver) this.#plan(this.#watchers.size > 0 ? LIVE_MS : EVERY_MS);
  }

  #take(now: Reading): void {
    if (this.#isOver) return;
    const before = this.#readings.at(-1);
    const isRecent = ({ atMs }: Reading): boolean => atMs >= now.atMs - LONG_MS && atMs < now.atMs;
    this.#readings = [...this.#readings.filter(isRecent), now];
    this.history.add(now);
    if (before === undefined || before.atMs >= now.atMs) return;
    const load = snakeNames(loadBetween(before, now, this.#readings[0]));
    const events = this.events.takeNew();
    this.#send(events.length === 0 ? load : { ...load, events });
  }

  #send(event: object): void {
    if (this.#watchers.size === 0) return;
    const bytes = encoder.encode(`data: ${JSON.stringify(event)}\n\n`);
    for (const watcher of this.#watchers) if ((watcher.desiredSize ?? 0) > -MOST_WAITING) watcher.enqueue(bytes);
  }
}
