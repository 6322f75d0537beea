/**
 * The figures of a history as JSON. A week's figures are 300 kB, take 17 ms to write, and change every quarter of an
 * hour, while every open page asks for them.
 */
import { snakeNames } from "../../core/snake-names.js";
import type { History, WindowName } from "./history.js";

/** Texts to keep: the windows of the server and of a few viewed parts. */
const MOST_KEPT = 8;

interface Kept {
  readonly history: History;
  readonly window: WindowName;
  /** Changes when the figures do. */
  readonly state: string;
  readonly json: string;
}

export class HistoryJson {
  /** In order of use, the most recent last. */
  readonly #kept: Kept[] = [];

  /** The array of `history.read(window, nowMs)`, with the API's names. */
  of(history: History, window: WindowName, nowMs: number): string {
    // A figure leaves a window when the next interval begins, even if no reading is written then.
    const state = `${history.numWritten(window)} ${Math.floor(nowMs / history.everyMs(window))}`;
    const at = this.#kept.findIndex((each) => each.history === history && each.window === window);
    const [found] = at < 0 ? [] : this.#kept.splice(at, 1);
    const json = found?.state === state ? found.json : JSON.stringify(snakeNames(history.read(window, nowMs)));
    this.#kept.push({ history, window, state, json });
    if (this.#kept.length > MOST_KEPT) this.#kept.shift();
    return json;
  }
}
