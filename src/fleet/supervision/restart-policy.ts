/** Decides after a crash: start again after a pause, or, where it is a crash loop, after a much longer one. */
import type { FleetTiming } from "./timing.js";

type RestartVerdict =
  | { readonly kind: "retry"; readonly delayMs: number }
  /** Until then nobody waits for it. */
  | { readonly kind: "pause"; readonly delayMs: number; readonly reason: string }
  | { readonly kind: "give_up"; readonly reason: string };

export class RestartPolicy {
  #crashTimesMs: number[] = [];
  #startsInVain = 0;
  /** Crash loops in a row. */
  #numLoops = 0;
  /** When the pause after the last one is over. */
  #resumesAtMs = 0;

  /** @param random in [0, 1): spreads instances that crashed together */
  constructor(
    private readonly timing: FleetTiming,
    private readonly random: () => number = Math.random,
  ) {}

  /** @param wasReady whether the process had become ready before */
  crashed(nowMs: number, wasReady: boolean): RestartVerdict {
    const { crashWindowMs, restartMs, maxRestartMs } = this.timing;
    this.#crashTimesMs = [...this.#crashTimesMs.filter((timeMs) => nowMs - timeMs < crashWindowMs), nowMs];
    this.#startsInVain = wasReady ? 0 : this.#startsInVain + 1;
    if (this.#numLoops > 0 && wasReady && nowMs - this.#resumesAtMs >= crashWindowMs) this.#numLoops = 0;
    const loop = this.#loop();
    if (loop !== undefined) return this.#pause(nowMs, loop);
    // Slow failures leave the window, but are doubled all the same.
    const doublings = Math.max(this.#crashTimesMs.length, this.#startsInVain) - 1;
    const fullMs = Math.min(maxRestartMs, restartMs * 2 ** doublings);
    return { kind: "retry", delayMs: this.#spread(fullMs) };
  }

  /** Somebody asked for a new start: the past does not count. */
  forget(): void {
    this.#crashTimesMs = [];
    this.#startsInVain = 0;
    this.#numLoops = 0;
  }

  /** Why this is a crash loop; undefined: it is none. */
  #loop(): string | undefined {
    const { maxCrashes, crashWindowMs } = this.timing;
    const numCrashes = this.#crashTimesMs.length;
    if (numCrashes >= maxCrashes) {
      return `crashed ${numCrashes} times within ${Math.round(crashWindowMs / 1000)} s`;
    }
    if (this.#startsInVain >= maxCrashes) return `was started ${this.#startsInVain} times without becoming ready`;
    // After a loop one start is a trial, not the first of as many again.
    return this.#numLoops > 0 ? "crashed again after a crash loop" : undefined;
  }

  #pause(nowMs: number, reason: string): RestartVerdict {
    const { giveUpMs, maxGiveUpMs } = this.timing;
    const delayMs = this.#spread(Math.min(maxGiveUpMs, giveUpMs * 2 ** this.#numLoops++));
    this.#resumesAtMs = nowMs + delayMs;
    return { kind: "pause", delayMs, reason };
  }

  #spread(ms: number): number {
    return ms * (0.5 + this.random() / 2);
  }
}
