/** Where requests wait while every instance has its seats taken: bounded, fair, and left by whoever goes away. */
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { FairQueue, type Waiter } from "./fair-queue.js";
import type { Lease, Refusal, RoutedRequest, Router } from "./router.js";

interface WaitingLimits {
  /** Of one model. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

export interface Entrant {
  readonly request: RoutedRequest;
  readonly priority: number;
  readonly tenant: string;
  /** Processes that have been tried, and are not to be again. */
  readonly excluded: readonly string[];
  /** It was let in before: it goes first, and is not turned away because others wait. */
  readonly isRetry: boolean;
}

/** Asks for an instance of a model that has none ready; false: none will come. */
export type Demand = (model: string) => boolean;

interface Waiting extends Waiter {
  readonly entrant: Entrant;
  readonly settle: (result: Lease | MillraceError) => void;
  readonly timer: NodeJS.Timeout;
  queue: FairQueue<Waiting>;
}

const MAX_RETRY_AFTER_SECONDS = 60;

export class WaitingRoom {
  readonly #queues = new Map<string, FairQueue<Waiting>>();

  constructor(
    private readonly router: Pick<Router, "acquire" | "hasReady" | "hasRoom" | "isComing" | "meanSeconds">,
    private readonly limits: WaitingLimits,
    private readonly demand: Demand,
    /** A model under whichever name waits in one queue. */
    private readonly modelOf: (name: string) => string = (name) => name,
  ) {}

  numWaiting(name: string): number {
    return this.#queues.get(this.modelOf(name))?.size ?? 0;
  }

  #queueOf(name: string): FairQueue<Waiting> {
    const model = this.modelOf(name);
    const queue = this.#queues.get(model) ?? new FairQueue<Waiting>();
    this.#queues.set(model, queue);
    return queue;
  }

  /**
   * A lease at once, or the promise of one. Throws (or rejects with) what the client is told.
   * @param onLeave gets the call that gives up waiting
   */
  enter(entrant: Entrant, onLeave: (leave: () => void) => void): Lease | Promise<Lease> {
    const { model } = entrant.request;
    const result =
      entrant.isRetry || this.numWaiting(model) === 0
        ? this.router.acquire(entrant.request, entrant.excluded)
        : this.#outlook(model);
    if (typeof result === "object") return result;
    if (result === "none" && !this.#isHopeful(model)) throw noneReady(model);
    return new Promise((resolve, reject) => {
      const leave = this.#wait(entrant, (result) =>
        result instanceof MillraceError ? reject(result) : resolve(result),
      );
      onLeave(leave);
    });
  }

  /** Lets in whoever finds a place now. Models may share instances, under several names, so all are asked. */
  admit(): void {
    for (const queue of this.#queues.values()) this.#admitOf(queue);
  }

  #admitOf(queue: FairQueue<Waiting>): void {
    // What those have tried already may suit who comes after them.
    const passedOver = new Set<Waiting>();
    for (let next = queue.peek(passedOver); next !== undefined; next = queue.peek(passedOver)) {
      const own = this.#queueOf(next.entrant.request.model);
      if (own !== queue) {
        // Its name stands for another model by now.
        queue.remove(next);
        next.queue = own;
        own.push(next);
        // It may have been asked already in this round.
        this.#admitOf(own);
        continue;
      }
      const { request, excluded } = next.entrant;
      if (this.#settle(queue, next, this.router.acquire(request, excluded))) continue;
      if (excluded.length === 0 || !this.router.hasRoom(request)) return;
      passedOver.add(next);
    }
  }

  /** @returns whether the one that was first is out of the queue */
  #settle(queue: FairQueue<Waiting>, waiting: Waiting, result: Lease | Refusal): boolean {
    if (result === "full") return false;
    if (result === "none") {
      // Who waits is told as soon as who comes.
      const problem = this.#hopelessness(waiting.entrant.request.model);
      if (problem === undefined) return false;
      queue.remove(waiting);
      clearTimeout(waiting.timer);
      waiting.settle(problem);
      return true;
    }
    clearTimeout(waiting.timer);
    queue.serve(waiting);
    waiting.settle(result);
    return true;
  }

  /** Whether an instance is on its way to a model that has none ready. Throws where there cannot be one. */
  #isHopeful(model: string): boolean {
    return this.demand(model) || this.router.isComing(model);
  }

  /** Why waiting for an instance makes no sense; undefined: it does. */
  #hopelessness(model: string): MillraceError | undefined {
    try {
      return this.#isHopeful(model) ? undefined : noneReady(model);
    } catch (thrown) {
      return toMillraceError(thrown);
    }
  }

  #wait(entrant: Entrant, settle: (result: Lease | MillraceError) => void): () => void {
    const { model, prefix, outputTokens } = entrant.request;
    const queue = this.#queueOf(model);
    const { isRetry, tenant } = entrant;
    if (!isRetry && queue.size >= this.limits.maxWaiting) throw this.#full(model, queue.size);
    const timer = setTimeout(() => {
      waiting.queue.remove(waiting);
      settle(this.#tooLong(model));
    }, this.limits.maxWaitMs);
    const cost = prefix.promptTokens + outputTokens;
    const priority = isRetry ? Number.NEGATIVE_INFINITY : entrant.priority;
    const waiting: Waiting = { entrant, settle, timer, queue, cost, priority, tenant };
    queue.push(waiting);
    // It may be the first now, before others that no place suits.
    this.#admitOf(queue);
    return () => {
      clearTimeout(timer);
      waiting.queue.remove(waiting);
      settle(new MillraceError("client_closed", "expected the client to wait for its turn, got a closed connection"));
    };
  }

  #outlook(model: string): Refusal {
    return this.router.hasReady(model, []) ? "full" : "none";
  }

  #retryAfter(model: string): number {
    return Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(this.router.meanSeconds(model))));
  }

  #full(model: string, numWaiting: number): MillraceError {
    const message = `expected at most ${this.limits.maxWaiting} waiting requests, got ${numWaiting} and one more`;
    return new MillraceError("queue_full", message, { retryAfterSeconds: this.#retryAfter(model) });
  }

  #tooLong(model: string): MillraceError {
    if (this.#outlook(model) === "none") return noneReady(model);
    const message = `expected a free place within ${this.limits.maxWaitMs} ms, got none`;
    return new MillraceError("queue_full", message, { retryAfterSeconds: this.#retryAfter(model) });
  }
}

export function noneReady(model: string): MillraceError {
  return new MillraceError("no_instance_ready", `expected a ready instance of ${model}, got none`, {
    retryAfterSeconds: 1,
  });
}
