/** Data that a page loads when it is shown, and reloads. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client.js";

interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: string | undefined;
  reload(): Promise<void>;
  /** Performs an action on the server, and reloads. */
  act(what: () => Promise<unknown>): Promise<void>;
}

interface LoadOptions {
  /** Reloads when one of these changes. */
  readonly when?: readonly unknown[];
  /** Interval of reloading in milliseconds, while the page is visible. */
  readonly everyMs?: number;
}

/** Whether the server lacks a part that its operator can switch on. */
const isSwitchedOff = (thrown: unknown): thrown is ApiError =>
  thrown instanceof ApiError && thrown.status === 404 && thrown.hint?.startsWith("it needs ") === true;

export function errorText(thrown: unknown): string {
  if (thrown instanceof ApiError && thrown.status === 401) return "Sign in to see this.";
  // The hint says what to add to the file; the message names a path that the visitor never asked for.
  if (isSwitchedOff(thrown)) return `Not switched on here: ${thrown.hint}.`;
  const { message, hint } = thrown as Error & { hint?: string };
  return hint === undefined ? message : `${message} – ${hint}`;
}

/** Answers arrive in any order: an answer is dropped once a later request's answer is shown. */
export class AnswerOrder {
  #numAsked = 0;
  #numPast = 0;

  /** Drops answers to requests from before this call. */
  forget(): void {
    this.#numPast = this.#numAsked;
  }

  /** @returns a function to call when the answer arrives; it returns whether to show the answer */
  ask(): () => boolean {
    const number = ++this.#numAsked;
    return () => {
      if (number <= this.#numPast) return false;
      this.#numPast = number;
      return true;
    };
  }
}

export function useLoaded<T>(get: () => Promise<T>, { when = [], everyMs }: LoadOptions = {}): Loaded<T> {
  const data = useSignal<T | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const [order] = useState(() => new AnswerOrder());
  const reload = async () => {
    const isShown = order.ask();
    try {
      const got = await get();
      if (isShown()) [data.value, error.value] = [got, undefined];
    } catch (thrown) {
      if (isShown()) error.value = errorText(thrown);
    }
  };
  const act = async (what: () => Promise<unknown>) => {
    try {
      await what();
    } catch (thrown) {
      error.value = errorText(thrown);
      return;
    }
    // Answers to requests from before the act do not show its effect.
    order.forget();
    await reload();
  };
  // The timer outlives the choices that the page had when it began.
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    order.forget();
    void reload();
  }, [...when]);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) void latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return { data: data.value, error: error.value, reload, act };
}
