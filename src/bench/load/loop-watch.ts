/**
 * Measures how long answers waited in this process before they were stamped. Sockets served in one turn of the event loop were ready when the turn
 * began, so a chunk has waited since then. If the turn directly follows another, the chunk may have come during that one, and its start is used: an
 * upper bound. The process's wait for a CPU is added. A run is judged by the median over short intervals: a process held up once, however long,
 * distorts one moment and not the run.
 */
import { readFileSync } from "node:fs";
import { median } from "../../core/statistics.js";

/** Turns closer together than this had no pause between them. */
const BACK_TO_BACK_MS = 0.05;

/** Shortest interval over which lag is averaged. */
const INTERVAL_MS = 50;

export interface LoopLag {
  readonly numChunks: number;
  /** Lag and CPU wait together, median over intervals. */
  readonly typicalMs: number;
  readonly meanMs: number;
  readonly maxMs: number;
  /** Mean wait for a CPU after a wake-up; 0 where the system does not tell. */
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

/** The main thread's schedule as Linux counts it: time on a CPU, time waiting for one, turns on a CPU. */
function scheduleOf(): Schedule {
  try {
    const [, waitNs, numWakeUps] = readFileSync("/proc/self/schedstat", "utf8").split(" ").map(Number);
    return { waitMs: waitNs! / 1e6, numWakeUps: numWakeUps! };
  } catch {
    // Not Linux: no counters.
    return { waitMs: 0, numWakeUps: 0 };
  }
}
