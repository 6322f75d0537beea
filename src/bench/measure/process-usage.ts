/** CPU time and memory of a local server and its child processes, from /proc. */
import { readdirSync, readFileSync } from "node:fs";
import type { ProcessUsage } from "../results/schema.js";

interface Snapshot {
  readonly cpuSeconds: number;
  readonly memoryBytes: number;
}

/** Linux's unit of CPU time on every architecture. */
const TICKS_PER_SECOND = 100;
const SAMPLE_MS = 500;

/** @returns undefined if /proc has no such process */
export function snapshotOf(pid: number): Snapshot | undefined {
  try {
    // The command's name, in brackets, may contain anything.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    const ownMemory = Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
    const own = (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    const children = childrenOf(pid).flatMap((child) => snapshotOf(child) ?? []);
    return {
      cpuSeconds: children.reduce((sum, child) => sum + child.cpuSeconds, own),
      memoryBytes: children.reduce((sum, child) => sum + child.memoryBytes, ownMemory),
    };
  } catch {
    return undefined;
  }
}

function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) => {
    const list = readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim();
    return list === "" ? [] : list.split(" ").map(Number);
  });
}

/** Watches a process until `finish`. */
export class ProcessWatch {
  readonly #startMs = performance.now();
  readonly #before: Snapshot | undefined;
  readonly #timer: NodeJS.Timeout;
  #peakBytes = 0;

  constructor(private readonly pid: number) {
    this.#before = this.#sample();
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  #sample(): Snapshot | undefined {
    const snapshot = snapshotOf(this.pid);
    this.#peakBytes = Math.max(this.#peakBytes, snapshot?.memoryBytes ?? 0);
    return snapshot;
  }

  /** Undefined if the process has ended, and on systems other than Linux. */
  finish(): ProcessUsage | undefined {
    clearInterval(this.#timer);
    const after = this.#sample();
    if (this.#before === undefined || after === undefined) return undefined;
    const seconds = (performance.now() - this.#startMs) / 1000;
    return { cpuCores: (after.cpuSeconds - this.#before.cpuSeconds) / seconds, peakMemoryBytes: this.#peakBytes };
  }
}
