/** Data that a page loads when it is shown, and loads again. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client.js";

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
  /** Interval of loading again, in milliseconds, while the page is visible. */
  readonly everyMs?: number;
}

/** Whether the server lacks a part that its operator may switch on. */
const isSwitchedOff = (thrown: unknown): thrown is ApiError =>
  thrown instanceof ApiError && thrown.status === 404 && thrown.hint?.startsWith("it needs ") === true;

export function errorText(thrown: unknown): string {
  if (thrown instanceof ApiError && thrown.status === 401) return "Sign in to see this.";
  // The hint says what to add to the file; the message names a path, which no visitor has asked for.
  if (isSwitchedOff(thrown)) return `Not switched on here: ${thrown.hint}.`;
  const { message, hint } = thrown as Error & { hint?: string };
  return hint === undefined ? message : `${message} – ${hint}`;
}

/** Answers come in any order: none is shown after one that was asked for later. */
export class AnswerOrder {
  #numAsked = 0;
  #numPast = 0;

  /** Answers to requests from before this call are not shown. */
  forget(): void {
    this.#numPast = this.#numAsked;
  }

  /** @returns to be called when the answer has come: whether it is shown */
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
  // The timer outlives the choices on the page with which it began.
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
