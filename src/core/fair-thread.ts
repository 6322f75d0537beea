/**
 * A thread that does one job at a time for many tenants, in turns between them: no tenant waits for all jobs of
 * another.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { MillraceError } from "./errors.js";
import { FairTurns } from "./fair-turns.js";
import { packageRoot } from "./package-root.js";

interface FairThreadOptions {
  /** Path below dist/src: compiled code, since a thread cannot run from source as tests do. */
  readonly script: string;
  readonly workerData?: unknown;
  /** The thread's purpose, for the error of a job during which it ends. */
  readonly name: string;
}

interface JobTerms {
  readonly tenant: string;
  /** In any unit that grows with a job's time. */
  readonly cost: number;
  /** Time limit: a slower thread is ended, and its job rejects with `beyondLimit`. */
  readonly limitMs?: number;
  readonly beyondLimit?: (limitMs: number) => MillraceError;
  /** Transferred to the thread with the job instead of being copied. */
  readonly moved?: readonly ArrayBuffer[];
  /** Receives a function that cancels the job. */
  readonly onWait?: (leave: () => void) => void;
}

interface Waiting<Job, Answer> {
  readonly job: Job;
  readonly terms: JobTerms;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: MillraceError) => void;
}

/** The thread answers each job with one message. It starts with the first job, and starts again after an end. */
export class FairThread<Job, Answer> {
  /** There is one thread, so a tenant's debt is bounded by its largest job. */
  readonly #turns = new FairTurns<Waiting<Job, Answer>>(0, Number.POSITIVE_INFINITY);
  #worker: Worker | undefined;
  /** The job in the thread, even if its client has left. */
  #current: Waiting<Job, Answer> | undefined;
  #endsWhenIdle = false;
  /** Time limit of the job in the thread. */
  #limit: NodeJS.Timeout | undefined;

  constructor(private readonly options: FairThreadOptions) {}

  /** Total cost of the tenant's waiting jobs, without the job in the thread. */
  waitingCost(tenant: string): number {
    return this.#turns.waitingOf(tenant).reduce((sum, { terms }) => sum + terms.cost, 0);
  }

  /**
   * Rejects with client_closed if the job is cancelled, and with internal_error if the thread ends during the job or
   * cannot start.
   */
  run(job: Job, terms: JobTerms): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const waiting = { job, terms, resolve, reject };
      this.#turns.add(waiting, terms.tenant);
      terms.onWait?.(() => this.#leave(waiting));
      this.#startNext();
    });
  }

  /** Ends the thread as soon as no job is left. A later job starts a thread that ends after it. */
  end(): void {
    this.#endsWhenIdle = true;
    if (this.#current === undefined) this.#rest();
  }

  #leave(waiting: Waiting<Job, Answer>): void {
    this.#turns.remove(waiting);
    const message = `expected the client to wait for ${this.options.name}, got a closed connection`;
    waiting.reject(new MillraceError("client_closed", message));
  }

  #startNext(): void {
    if (this.#current !== undefined) return;
    this.#current = this.#turns.next();
    if (this.#current === undefined) {
      this.#rest();
      return;
    }
    const { job, terms } = this.#current;
    try {
      this.#worker ??= this.#startThread();
      // A job in the thread keeps the process alive.
      this.#worker.ref();
      this.#worker.postMessage(job, terms.moved ?? []);
      const { limitMs, beyondLimit } = terms;
      if (limitMs !== undefined) {
        this.#limit = setTimeout(() => this.#stop(beyondLimit?.(limitMs) ?? this.#failure("no answer")), limitMs);
      }
    } catch (thrown) {
      // The system may have no threads left. The next job tries again.
      const error = this.#failure(String(thrown));
      this.#finish((waiting) => waiting.reject(error));
    }
  }

  /** Ends the thread in the middle of its job. The next job starts another thread. */
  #stop(error: MillraceError): void {
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
    this.#finish((waiting) => waiting.reject(error));
  }

  /** Without a job the thread does not keep the process alive. */
  #rest(): void {
    const worker = this.#worker;
    worker?.unref();
    if (!this.#endsWhenIdle) return;
    this.#worker = undefined;
    void worker?.terminate();
  }

  #startThread(): Worker {
    const { script, workerData } = this.options;
    const worker = new Worker(join(packageRoot(), "dist/src", script), { workerData });
    const onEnd = (reason: string) => {
      // An exit follows an error; by then another thread may have replaced this one.
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      const error = this.#failure(reason);
      this.#finish((waiting) => waiting.reject(error));
    };
    worker.on("message", (answer: Answer) => {
      // The thread may have answered just before its end.
      if (this.#worker === worker) this.#finish((waiting) => waiting.resolve(answer));
    });
    worker.on("error", (error) => onEnd(String(error)));
    worker.on("exit", () => onEnd("it ended"));
    return worker;
  }

  #failure(got: string): MillraceError {
    return new MillraceError("internal_error", `expected ${this.options.name} to go on, got: ${got}`);
  }

  #finish(settle: (waiting: Waiting<Job, Answer>) => void): void {
    const current = this.#current;
    clearTimeout(this.#limit);
    if (current !== undefined) {
      this.#current = undefined;
      this.#turns.charge(current.terms.tenant, current.terms.cost);
      settle(current);
    }
    this.#startNext();
  }
}
