/** Decides after a crash: start again after a pause, or give up because it is a crash loop. */
import type { FleetTiming } from "./timing.js";

export type RestartVerdict =
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "give_up"; readonly reason: string };

export class RestartPolicy {
  #crashTimesMs: number[] = [];
  #startsInVain = 0;

  /** @param random in [0, 1): spreads instances that crashed together */
  constructor(
    private readonly timing: FleetTiming,
    private readonly random: () => number = Math.random,
  ) {}

  /** @param wasReady whether the process had become ready before */
  crashed(nowMs: number, wasReady: boolean): RestartVerdict {
    const { maxCrashes, crashWindowMs, restartMs, maxRestartMs } = this.timing;
    this.#crashTimesMs = [...this.#crashTimesMs.filter((timeMs) => nowMs - timeMs < crashWindowMs), nowMs];
    this.#startsInVain = wasReady ? 0 : this.#startsInVain + 1;
    const numCrashes = this.#crashTimesMs.length;
    if (numCrashes >= maxCrashes) {
      return { kind: "give_up", reason: `crashed ${numCrashes} times within ${Math.round(crashWindowMs / 1000)} s` };
    }
    if (this.#startsInVain >= maxCrashes) {
      return { kind: "give_up", reason: `was started ${this.#startsInVain} times without becoming ready` };
    }
    // Slow failures leave the window, but are doubled all the same.
    const doublings = Math.max(numCrashes, this.#startsInVain) - 1;
    const fullMs = Math.min(maxRestartMs, restartMs * 2 ** doublings);
    return { kind: "retry", delayMs: fullMs * (0.5 + this.random() / 2) };
  }

  /** Somebody asked for a new start: the past does not count. */
  forget(): void {
    this.#crashTimesMs = [];
    this.#startsInVain = 0;
  }
}
