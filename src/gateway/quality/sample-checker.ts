/**
 * Judges samples in a thread. The queue is bounded: further samples are dropped and counted, and no request waits for
 * either.
 */
import { FairThread } from "../../core/fair-thread.js";
import type { CheckAnswer, CheckJob, PlainPattern } from "./check-job.js";

/** Waiting samples, and their bytes. A tenant may have as many waiting as are free: half, if it is alone. */
const MAX_WAITING = 256;
const MAX_BYTES = 32 * 1024 * 1024;
/** A text that takes longer is dropped. Ordinary ones take a few milliseconds. */
const LIMIT_MS = 5000;
/** Time that waiting samples get when the gateway closes. */
const CLOSE_MS = 3000;

export const DROP_REASONS = ["queue_full", "too_large", "unreadable", "failed"] as const;
export type DropReason = (typeof DROP_REASONS)[number];

/** The place where a job ends: in the thread, or in a test's own runner. */
export interface JobRunner {
  run(job: CheckJob, tenant: string, numBytes: number): Promise<CheckAnswer>;
  end(): void;
}

export function checkThread(patterns: readonly PlainPattern[]): JobRunner {
  const script = "gateway/quality/check-thread.js";
  const name = "the thread of the quality checks";
  const thread = new FairThread<CheckJob, CheckAnswer>({ script, workerData: { patterns }, name });
  return {
    run: (job, tenant, numBytes) => {
      const moved = job.kind === "sample" ? [job.request, job.answer].map((bytes) => bytes.buffer as ArrayBuffer) : [];
      return thread.run(job, { tenant, cost: numBytes, limitMs: LIMIT_MS, moved });
    },
    end: () => thread.end(),
  };
}

/** A tenant's waiting samples. */
interface Load {
  count: number;
  numBytes: number;
}

export class SampleChecker {
  readonly #pending = new Set<Promise<unknown>>();
  #numBytes = 0;
  /** Loads of tenants with waiting samples. */
  readonly #loads = new Map<string, Load>();

  constructor(private readonly runner: JobRunner) {}

  /** @returns the thread's answer, or the reason for none. Never rejects */
  async check(job: CheckJob, tenant: string): Promise<CheckAnswer | DropReason> {
    const numBytes = job.kind === "sample" ? job.request.length + job.answer.length : job.texts.join("").length;
    const load = this.#loads.get(tenant) ?? { count: 0, numBytes: 0 };
    const isFull =
      load.count + this.#pending.size >= MAX_WAITING || load.numBytes + numBytes > MAX_BYTES - this.#numBytes;
    if (isFull) return "queue_full";
    this.#loads.set(tenant, load);
    load.count++;
    load.numBytes += numBytes;
    this.#numBytes += numBytes;
    const running = this.runner.run(job, tenant, Math.max(1, numBytes)).catch((): DropReason => "failed");
    this.#pending.add(running);
    const answer = await running;
    this.#pending.delete(running);
    this.#numBytes -= numBytes;
    load.numBytes -= numBytes;
    if (--load.count === 0) this.#loads.delete(tenant);
    return answer;
  }

  /** Checks the queued samples; gives up after three seconds. */
  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS).unref();
    });
    await Promise.race([Promise.all(this.#pending), timeout]);
    clearTimeout(timer);
    this.runner.end();
  }
}
