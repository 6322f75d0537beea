/** Decides the wait between a crash and the next start: a short pause, or a much longer one in a crash loop. */
import type { FleetTiming } from "./timing.js";

type RestartVerdict =
  | { readonly kind: "retry"; readonly delayMs: number }
  /** A long pause, in which no request waits for the instance. */
  | { readonly kind: "pause"; readonly delayMs: number; readonly reason: string }
  | { readonly kind: "give_up"; readonly reason: string };

export class RestartPolicy {
  #crashTimesMs: number[] = [];
  #startsInVain = 0;
  /** Number of crash loops in a row. */
  #numLoops = 0;
  /** End of the pause after the last crash loop. */
  #resumesAtMs = 0;

  /** @param random returns a number in [0, 1), to spread the restarts of instances that crashed together */
  constructor(
    private readonly timing: FleetTiming,
    private readonly random: () => number = Math.random,
  ) {}

  /** @param wasReady whether the process had been ready before its crash */
  crashed(nowMs: number, wasReady: boolean): RestartVerdict {
    const { crashWindowMs, restartMs, maxRestartMs } = this.timing;
    this.#crashTimesMs = [...this.#crashTimesMs.filter((timeMs) => nowMs - timeMs < crashWindowMs), nowMs];
    this.#startsInVain = wasReady ? 0 : this.#startsInVain + 1;
    if (this.#numLoops > 0 && wasReady && nowMs - this.#resumesAtMs >= crashWindowMs) this.#numLoops = 0;
    const loop = this.#loop();
    if (loop !== undefined) return this.#pause(nowMs, loop);
    // Starts that fail slowly drop out of the window, but still double the pause.
    const doublings = Math.max(this.#crashTimesMs.length, this.#startsInVain) - 1;
    const fullMs = Math.min(maxRestartMs, restartMs * 2 ** doublings);
    return { kind: "retry", delayMs: this.#spread(fullMs) };
  }

  /** Forgets earlier crashes, after a start by hand. */
  forget(): void {
    this.#crashTimesMs = [];
    this.#startsInVain = 0;
    this.#numLoops = 0;
  }

  /** The reason why this is a crash loop; undefined if it is not. */
  #loop(): string | undefined {
    const { maxCrashes, crashWindowMs } = this.timing;
    const numCrashes = this.#crashTimesMs.length;
    if (numCrashes >= maxCrashes) {
      return `crashed ${numCrashes} times within ${Math.round(crashWindowMs / 1000)} s`;
    }
    if (this.#startsInVain >= maxCrashes) return `was started ${this.#startsInVain} times without becoming ready`;
    // After a crash loop a single further crash counts as the next loop.
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
