/** The server's figures: each second while the dashboard is shown, and those of the time before from the server's history. */
import { effect, signal } from "@preact/signals";
import { call, getJson } from "../api/client.js";
import { eventsOf } from "../api/events.js";
import type { Load } from "./load.js";

/** After a stream has ended. */
const AGAIN_MS = 1000;
const MOST_POINTS = 3600;

export const SPANS = { live: "Now", hour: "Hour", day: "Day", week: "Week" } as const;
export type Span = keyof typeof SPANS;

/** What the charts show. */
export const span = signal<Span>("live");
/** The oldest first: what this page has seen. */
const seen = signal<readonly Load[]>([]);
const past = signal<readonly Load[]>([]);
export const watchError = signal<string | undefined>(undefined);

/** The latest figures, whatever the charts show. */
export const latest = (): Load | undefined => seen.value.at(-1);
export const shownLoads = (): readonly Load[] => (span.value === "live" ? seen.value : past.value);

async function follow(signal: AbortSignal): Promise<void> {
  try {
    const { body } = await call("watch/live", { signal });
    for await (const load of eventsOf(body!)) {
      seen.value = [...seen.value, load as Load].slice(-MOST_POINTS);
      watchError.value = undefined;
    }
  } catch (thrown) {
    // The server may be starting again.
    if (!signal.aborted) watchError.value = (thrown as Error).message;
  }
}

interface Past {
  readonly everyMs: number;
  readonly loads: readonly Load[];
}

/** Reads the history of `wanted`, again whenever it has grown. @returns ends it */
function readPast(wanted: Span): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  const again = async (): Promise<void> => {
    let waitMs = AGAIN_MS;
    try {
      const { everyMs, loads } = await getJson<Past>(`watch/history?window=${wanted}`);
      if (isOver) return;
      past.value = loads;
      waitMs = everyMs;
    } catch (thrown) {
      watchError.value = (thrown as Error).message;
    }
    if (!isOver) timer = setTimeout(() => void again(), waitMs);
  };
  void again();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** @returns ends the watch */
export function watch(): () => void {
  let following = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  // A page that nobody sees costs the server nothing.
  const again = async (): Promise<void> => {
    if (!document.hidden) await follow(following.signal);
    if (!isOver) timer = setTimeout(() => void again(), AGAIN_MS);
  };
  const onVisibility = (): void => {
    if (!document.hidden) return;
    following.abort();
    following = new AbortController();
  };
  document.addEventListener("visibilitychange", onVisibility);
  void again();
  const endPast = effect(() => (span.value === "live" ? undefined : readPast(span.value)));
  return () => {
    isOver = true;
    clearTimeout(timer);
    following.abort();
    endPast();
    document.removeEventListener("visibilitychange", onVisibility);
  };
}
