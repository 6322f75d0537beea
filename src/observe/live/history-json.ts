/**
 * The figures of a history as JSON. Those of a week are 300 kB, take 17 ms to write, and change every quarter of an
 * hour, while every open page asks for them.
 */
import { snakeNames } from "../../core/snake-names.js";
import type { History, WindowName } from "./history.js";

/** Texts that are kept: the windows of the server and of a few parts that somebody looks at. */
const MOST_KEPT = 8;

interface Kept {
  readonly history: History;
  readonly window: WindowName;
  /** Differs once the figures do. */
  readonly state: string;
  readonly json: string;
}

export class HistoryJson {
  /** The last used one last. */
  readonly #kept: Kept[] = [];

  /** The array of `history.read(window, nowMs)`, with the names of the API. */
  of(history: History, window: WindowName, nowMs: number): string {
    // A figure leaves a window when the next interval begins; without readings none is written then.
    const state = `${history.numWritten(window)} ${Math.floor(nowMs / history.everyMs(window))}`;
    const at = this.#kept.findIndex((each) => each.history === history && each.window === window);
    const [found] = at < 0 ? [] : this.#kept.splice(at, 1);
    const json = found?.state === state ? found.json : JSON.stringify(snakeNames(history.read(window, nowMs)));
    this.#kept.push({ history, window, state, json });
    if (this.#kept.length > MOST_KEPT) this.#kept.shift();
    return json;
  }
}
