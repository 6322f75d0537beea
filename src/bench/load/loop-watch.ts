/**
 * How long answers lay in this process before they were stamped. The sockets that one turn of the event loop serves were ready when it began, so each chunk
 * has waited since then; where a turn follows the last one at once, the chunk may have come while that one was at work, and since its beginning is
 * counted: an upper bound. To it comes the time that the process waited for a CPU.
 */
import { readFileSync } from "node:fs";

/** Turns that are closer than this had no pause between them. */
const BACK_TO_BACK_MS = 0.05;

export interface LoopLag {
  readonly numChunks: number;
  readonly meanMs: number;
  readonly maxMs: number;
  /** Mean wait for a CPU after each wake-up; 0 where the system does not tell. */
  readonly cpuWaitMs: number;
  /** Share of the time in which the event loop was at work, 0 to 1. */
  readonly utilization: number;
}

export class LoopWatch {
  readonly #utilization = performance.eventLoopUtilization();
  readonly #schedule = scheduleOf();
  #isInTurn = false;
  #turnStartMs = Number.NEGATIVE_INFINITY;
  #turnEndMs = Number.NEGATIVE_INFINITY;
  #readySinceMs = 0;
  #numChunks = 0;
  #sumMs = 0;
  #maxMs = 0;

  constructor(private readonly now: () => number) {}

  onChunk(nowMs: number): void {
    if (!this.#isInTurn) {
      this.#isInTurn = true;
      this.#readySinceMs = nowMs - this.#turnEndMs < BACK_TO_BACK_MS ? this.#turnStartMs : nowMs;
      this.#turnStartMs = nowMs;
      setImmediate(() => {
        this.#isInTurn = false;
        this.#turnEndMs = this.now();
      });
    }
    const lagMs = nowMs - this.#readySinceMs;
    this.#numChunks++;
    this.#sumMs += lagMs;
    this.#maxMs = Math.max(this.#maxMs, lagMs);
  }

  lag(): LoopLag {
    const { waitMs, numWakeUps } = scheduleOf();
    return {
      numChunks: this.#numChunks,
      meanMs: this.#sumMs / Math.max(1, this.#numChunks),
      maxMs: this.#maxMs,
      cpuWaitMs: (waitMs - this.#schedule.waitMs) / Math.max(1, numWakeUps - this.#schedule.numWakeUps),
      utilization: performance.eventLoopUtilization(this.#utilization).utilization,
    };
  }
}

/** Of this process's main thread, as Linux counts: time on a CPU, time ready without one, turns on a CPU. */
function scheduleOf(): { readonly waitMs: number; readonly numWakeUps: number } {
  try {
    const [, waitNs, numWakeUps] = readFileSync("/proc/self/schedstat", "utf8").split(" ").map(Number);
    return { waitMs: waitNs! / 1e6, numWakeUps: numWakeUps! };
  } catch {
    // Not Linux: nothing is known of it.
    return { waitMs: 0, numWakeUps: 0 };
  }
}
