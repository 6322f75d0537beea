/**
 * How long answers lay in this process before they were stamped. The sockets that one turn of the event loop serves were ready when it began, so each chunk
 * has waited since then; where a turn follows the last one at once, the chunk may have come while that one was at work, and since its beginning is
 * counted: an upper bound. To it comes the time that the process waited for a CPU. What a run is judged by is the median over short intervals: a process
 * that is held up once, however long, has falsified one moment and not the run.
 */
import { readFileSync } from "node:fs";
import { median } from "../../core/statistics.js";

/** Turns that are closer than this had no pause between them. */
const BACK_TO_BACK_MS = 0.05;

/** At least so long an interval is, of those with chunks. */
const INTERVAL_MS = 50;

export interface LoopLag {
  readonly numChunks: number;
  /** Both together, the median over intervals. */
  readonly typicalMs: number;
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

/** Mean wait of each wake-up. */
function waitBetween(from: Schedule, to: Schedule): number {
  return (to.waitMs - from.waitMs) / Math.max(1, to.numWakeUps - from.numWakeUps);
}

/** Of this process's main thread, as Linux counts: time on a CPU, time ready without one, turns on a CPU. */
function scheduleOf(): Schedule {
  try {
    const [, waitNs, numWakeUps] = readFileSync("/proc/self/schedstat", "utf8").split(" ").map(Number);
    return { waitMs: waitNs! / 1e6, numWakeUps: numWakeUps! };
  } catch {
    // Not Linux: nothing is known of it.
    return { waitMs: 0, numWakeUps: 0 };
  }
}
