/**
 * The server's figures: live ones each second while the dashboard is shown, and earlier ones from the server's history.
 */
import { effect, signal } from "@preact/signals";
import { type Asker, call, getJson } from "../api/client.js";
import { eventsOf } from "../api/events.js";
import type { Load, ServerEvent } from "./load.js";

/** Wait before a new stream after one has ended. */
const AGAIN_MS = 1000;
/** A stream without an event for this long counts as dead. */
const SILENT_MS = 5000;
const MOST_POINTS = 3600;
/** Interval at which the list of parts is read again, since instances come and go. */
const PARTS_MS = 10_000;

export const SPANS = { live: "Now", hour: "Hour", day: "Day", week: "Week" } as const;
export type Span = keyof typeof SPANS;

/** A model, an instance or a tenant of a fleet. */
export interface Part {
  readonly kind: "model" | "instance" | "tenant";
  readonly name: string;
  readonly isCurrent: boolean;
}

export const queryOf = ({ kind, name }: Pick<Part, "kind" | "name">): string => `${kind}=${encodeURIComponent(name)}`;

export const isTenant = (query: string): boolean => query.startsWith("tenant=");

/** Only operators see a tenant's figures. */
const askerOf = (query: string): Asker => (isTenant(query) ? "operator" : "client");

/** The span of time that the charts show. */
export const span = signal<Span>("live");
/** The part whose figures are shown, as a query; empty: the whole server. */
export const part = signal("");
export const parts = signal<readonly Part[]>([]);
/** Figures that this page has received, oldest first. */
const seen = signal<readonly Load[]>([]);
const past = signal<readonly Load[]>([]);
const pastEvents = signal<readonly ServerEvent[]>([]);
export const watchError = signal<string | undefined>(undefined);

/** The latest figures, whatever the charts show. */
export const latest = (): Load | undefined => seen.value.at(-1);
export const shownLoads = (): readonly Load[] => (span.value === "live" ? seen.value : past.value);

/** Events of the charts' time, oldest first. */
export const shownEvents = (): readonly ServerEvent[] =>
  span.value === "live" ? seen.value.flatMap(({ events = [] }) => events) : pastEvents.value;

/** Converts the API's names, such as `tokens_in_per_s`, to the names of this code. */
export function camelNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelNames);
  if (typeof value !== "object" || value === null) return value;
  const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [camel(name), camelNames(each)]));
}

async function follow(signal: AbortSignal): Promise<void> {
  const silence = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  const wait = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error("the server sends nothing")), SILENT_MS);
  };
  try {
    wait();
    const init = { signal: AbortSignal.any([signal, silence.signal]), as: askerOf(part.value) };
    const { body } = await call(`watch/live?${part.value}`, init);
    for await (const load of eventsOf(body!)) {
      // These figures arrived before the end of the stream.
      if (signal.aborted) break;
      wait();
      seen.value = [...seen.value, camelNames(load) as Load].slice(-MOST_POINTS);
      watchError.value = undefined;
    }
  } catch (thrown) {
    // The server may be restarting.
    if (!signal.aborted) watchError.value = (thrown as Error).message;
  } finally {
    clearTimeout(timer!);
  }
}

interface Past {
  readonly everyMs: number;
  readonly loads: readonly Load[];
  readonly events: readonly ServerEvent[];
}

async function readParts(): Promise<void> {
  const answer = document.hidden ? undefined : await getJson("watch/series").catch(() => undefined);
  if (answer !== undefined) parts.value = (camelNames(answer) as { readonly data: readonly Part[] }).data;
}

/** Reads the history of a span and a part, again whenever it has grown. @returns a function that ends the reading */
function readPast(wanted: Span, whose: string): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  past.value = [];
  pastEvents.value = [];
  const again = async (): Promise<void> => {
    let waitMs = AGAIN_MS;
    // The live figures show a failure too.
    const answer = document.hidden
      ? undefined
      : await getJson(`watch/history?window=${wanted}&${whose}`, askerOf(whose)).catch(() => undefined);
    if (isOver) return;
    if (answer !== undefined) {
      const { everyMs, loads, events } = camelNames(answer) as Past;
      past.value = loads;
      pastEvents.value = events;
      waitMs = everyMs;
    }
    if (!isOver) timer = setTimeout(() => void again(), waitMs);
  };
  void again();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** @returns a function that ends the watch */
export function watch(): () => void {
  let following = new AbortController();
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  // A hidden page causes the server no work.
  const again = async (): Promise<void> => {
    const { signal } = following;
    if (!document.hidden) await follow(signal);
    // Follows another part at once.
    if (!isOver) timer = setTimeout(() => void again(), signal.aborted ? 0 : AGAIN_MS);
  };
  const endFollowing = (): void => {
    following.abort();
    following = new AbortController();
  };
  const onVisibility = (): void => {
    if (document.hidden) endFollowing();
  };
  document.addEventListener("visibilitychange", onVisibility);
  let followed = part.peek();
  const endPart = effect(() => {
    if (part.value === followed) return;
    followed = part.value;
    seen.value = [];
    endFollowing();
  });
  void again();
  void readParts();
  const partsTimer = setInterval(() => void readParts(), PARTS_MS);
  const endPast = effect(() => (span.value === "live" ? undefined : readPast(span.value, part.value)));
  return () => {
    isOver = true;
    clearTimeout(timer);
    clearInterval(partsTimer);
    following.abort();
    endPart();
    endPast();
    document.removeEventListener("visibilitychange", onVisibility);
  };
}
