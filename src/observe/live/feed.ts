/** What the dashboard shows: figures each second to those who watch, and the figures of the last hour, day and week. */
import { MillraceError } from "../../core/errors.js";
import { EVERY_MS, type History, WINDOW_NAMES, type WindowName } from "./history.js";
import { type Load, loadBetween, type Reading, readingOf } from "./load.js";
import { parseMetrics } from "./metrics-text.js";

/** Between two figures while somebody watches. */
const LIVE_MS = 1000;
/** Quantiles and shares of live figures are those of this much time: they need more requests than a second has. */
const LONG_MS = 30_000;
const MOST_WATCHERS = 100;
/** Events that a watcher who does not read may leave waiting; further ones are left out. */
const MOST_WAITING = 10;

type Watcher = ReadableStreamDefaultController<Uint8Array>;

const encoder = new TextEncoder();

export class LiveFeed {
  readonly #watchers = new Set<Watcher>();
  #readings: readonly Reading[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isReading = false;
  #isOver = false;

  /** @param readText the metrics in Prometheus' text format */
  constructor(
    private readonly readText: () => Promise<string>,
    private readonly history: History,
  ) {}

  start(): void {
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

  /** Server-sent events, each a load. @throws queue_full */
  live(): Response {
    if (this.#watchers.size >= MOST_WATCHERS) {
      throw new MillraceError("queue_full", `expected at most ${MOST_WATCHERS} who watch, got one more`, {
        hint: "read /metrics instead, or close other dashboards",
      });
    }
    let own: Watcher | undefined;
    const leave = (): void => {
      if (own !== undefined) this.#watchers.delete(own);
    };
    const body = new ReadableStream<Uint8Array>(
      {
        start: (watcher) => {
          own = watcher;
          if (this.#isOver) return watcher.close();
          this.#watchers.add(watcher);
          // Bytes at once: clients and proxies then know that the stream has begun.
          watcher.enqueue(encoder.encode(": figures follow\n\n"));
          if (!this.#isReading) void this.#turn();
        },
        cancel: leave,
      },
      { highWaterMark: MOST_WAITING },
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

  #past(window: WindowName): {
    readonly window: WindowName;
    readonly everyMs: number;
    readonly loads: readonly Load[];
  } {
    return { window, everyMs: this.history.everyMs(window), loads: this.history.read(window, Date.now()) };
  }

  /** Reads, and plans the next reading. */
  async #turn(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isReading = true;
    try {
      this.#take(readingOf(parseMetrics(await this.readText()), Date.now()));
    } catch {
      // Figures of a fleet whose instances are starting, for example: the next reading begins anew.
      this.#readings = [];
    }
    this.#isReading = false;
    if (this.#isOver) return;
    this.#timer = setTimeout(() => void this.#turn(), this.#watchers.size > 0 ? LIVE_MS : EVERY_MS);
    this.#timer.unref();
  }

  #take(now: Reading): void {
    if (this.#isOver) return;
    const before = this.#readings.at(-1);
    this.#readings = [...this.#readings.filter(({ atMs }) => atMs >= now.atMs - LONG_MS), now];
    this.history.add(now);
    if (before === undefined || before.atMs >= now.atMs || this.#watchers.size === 0) return;
    const event = encoder.encode(`data: ${JSON.stringify(loadBetween(before, now, this.#readings[0]))}\n\n`);
    for (const watcher of this.#watchers) if ((watcher.desiredSize ?? 0) > 0) watcher.enqueue(event);
  }
}
