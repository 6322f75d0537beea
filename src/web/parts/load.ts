/** Data that a page loads when it is shown, and loads again. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: string | undefined;
  reload(): Promise<void>;
  /** Does something on the server, and loads again. */
  act(what: () => Promise<unknown>): Promise<void>;
}

interface LoadOptions {
  /** Loaded again when one of them changes. */
  readonly when?: readonly unknown[];
  /** Loaded again all this time, in milliseconds, while the page is seen. */
  readonly everyMs?: number;
}

export function errorText(thrown: unknown): string {
  const { message, hint } = thrown as Error & { hint?: string };
  return hint === undefined ? message : `${message} – ${hint}`;
}

export function useLoaded<T>(get: () => Promise<T>, { when = [], everyMs }: LoadOptions = {}): Loaded<T> {
  const data = useSignal<T | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const attempt = async (what: () => Promise<unknown>) => {
    try {
      await what();
      error.value = undefined;
    } catch (thrown) {
      error.value = errorText(thrown);
    }
  };
  const reload = () =>
    attempt(async () => {
      data.value = await get();
    });
  const act = (what: () => Promise<unknown>) =>
    attempt(async () => {
      await what();
      data.value = await get();
    });
  // The timer outlives the choices on the page with which it began.
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => void reload(), [...when]);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return { data: data.value, error: error.value, reload, act };
}
