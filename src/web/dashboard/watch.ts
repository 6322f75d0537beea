/** Reads the server's metrics each second while the dashboard is shown. */
import { signal } from "@preact/signals";
import { call } from "../api/client.js";
import { type Load, loadBetween, type Reading, readingOf } from "./load.js";
import { parseMetrics } from "./metrics-text.js";

const EVERY_MS = 1000;
/** Quantiles and shares are those of this many seconds. */
const LONG = 30;
const MOST_POINTS = 3600;

/** The oldest first: what this page has seen. */
export const loads = signal<readonly Load[]>([]);
export const watchError = signal<string | undefined>(undefined);

let readings: readonly Reading[] = [];

async function read(): Promise<void> {
  try {
    const text = await (await call("metrics")).text();
    const now = readingOf(parseMetrics(text), Date.now());
    const before = readings.at(-1);
    if (before !== undefined) loads.value = [...loads.value, loadBetween(before, now, readings[0])].slice(-MOST_POINTS);
    readings = [...readings, now].slice(-LONG);
    watchError.value = undefined;
  } catch (thrown) {
    // The server may be starting again.
    readings = [];
    watchError.value = (thrown as Error).message;
  }
}

/** @returns ends the watch */
export function watch(): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  const again = async (): Promise<void> => {
    if (!document.hidden) await read();
    if (!isOver) timer = setTimeout(() => void again(), EVERY_MS);
  };
  void again();
  return () => {
    isOver = true;
    clearTimeout(timer);
    readings = [];
  };
}
