/**
 * Measures how long answers waited in this process before their time was recorded. Sockets served in one turn of the
 * event loop were ready when the turn began, so a chunk waited since then. If the turn directly follows another, the
 * chunk may have arrived during that one, so its start is used as an upper bound. The process's wait for a CPU is
 * added. A run is judged by the median over short intervals, because a single stall, however long, distorts one moment
 * only.
 */
import { readFileSync } from "node:fs";
import { median } from "../../core/statistics.js";

/** Turns with a smaller gap count as consecutive, without a pause. */
const BACK_TO_BACK_MS = 0.05;

/** Shortest interval over which lag is averaged. */
const INTERVAL_MS = 50;

export interface LoopLag {
  readonly numChunks: number;
  /** Sum of lag and CPU wait, median over intervals. */
  readonly typicalMs: number;
  readonly meanMs: number;
  readonly maxMs: number;
  /** Mean wait for a CPU after a wake-up; 0 if the system does not report it. */
  readonly cpuWaitMs: number;
  /** Share of the time during which the event loop was busy, 0 to 1. */
  readonly utilization: number;
}

export class LoopWatch {
  readonly #utilization = performance.eventLoopUtilization();
  readonly #schedule = scheduleOf();
  #isInTurn = false;
  #turnStartMs = Number.NEGATIVE_INFINITY;
  #turnEndMs = Number.NEGATIVE_INFINITY;
  #readySinceMs = 0;
  readonly #intervalsMs: number[] = [];
  #interval = { startMs: Number.NEGATIVE_INFINITY, numChunks: 0, sumMs: 0, schedule: this.#schedule };
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
    if (nowMs - this.#interval.startMs > INTERVAL_MS) this.#nextInterval(nowMs);
    this.#interval.numChunks++;
    this.#interval.sumMs += lagMs;
    this.#numChunks++;
    this.#sumMs += lagMs;
    this.#maxMs = Math.max(this.#maxMs, lagMs);
  }

  #nextInterval(startMs: number): void {
    const { numChunks, sumMs, schedule } = this.#interval;
    const now = scheduleOf();
    if (numChunks > 0) this.#intervalsMs.push(sumMs / numChunks + waitBetween(schedule, now));
    this.#interval = { startMs, numChunks: 0, sumMs: 0, schedule: now };
  }

  lag(): LoopLag {
    this.#nextInterval(Number.NEGATIVE_INFINITY);
    return {
      numChunks: this.#numChunks,
      typicalMs: this.#numChunks === 0 ? 0 : median(this.#intervalsMs),
      meanMs: this.#sumMs / Math.max(1, this.#numChunks),
      maxMs: this.#maxMs,
      cpuWaitMs: waitBetween(this.#schedule, this.#interval.schedule),
      utilization: performance.eventLoopUtilization(this.#utilization).utilization,
    };
  }
}

interface Schedule {
  readonly waitMs: number;
  readonly numWakeUps: number;
}

/** Mean wait per wake-up. */
function waitBetween(from: Schedule, to: Schedule): number {
  return (to.waitMs - from.waitMs) / Math.max(1, to.numWakeUps - from.numWakeUps);
}

/** Linux's scheduler statistics of the main thread: time on a CPU, time waiting for a CPU, and time slices. */
function scheduleOf(): Schedule {
  try {
    const [, waitNs, numWakeUps] = readFileSync("/proc/self/schedstat", "utf8").split(" ").map(Number);
    return { waitMs: waitNs! / 1e6, numWakeUps: numWakeUps! };
  } catch {
    // Only Linux has these counters.
    return { waitMs: 0, numWakeUps: 0 };
  }
}
