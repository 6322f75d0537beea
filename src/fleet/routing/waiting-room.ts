/**
 * Holds requests while every seat is taken: bounded, fair between tenants, and without requests whose client has left.
 */
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { FairQueue, type Waiter } from "./fair-queue.js";
import type { Lease, Refusal, RoutedRequest, Router } from "./router.js";

interface WaitingLimits {
  /** Largest number of waiting requests per model. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

export interface Entrant {
  readonly request: RoutedRequest;
  readonly priority: number;
  readonly tenant: string;
  /** Processes that failed the request and must not get it again. */
  readonly excluded: readonly string[];
  /** The request has been through the queue before: it goes first, even if the queue is full. */
  readonly isRetry: boolean;
}

/** Requests an instance of a model that has none ready. @returns false if none will start */
export type Demand = (model: string) => boolean;

interface Waiting extends Waiter {
  readonly entrant: Entrant;
  readonly settle: (result: Lease | MillraceError) => void;
  readonly timer: NodeJS.Timeout;
  queue: FairQueue<Waiting>;
}

const MAX_RETRY_AFTER_SECONDS = 60;
/** Longest wait until a paid API's limit resets. */
const MOST_PATIENCE_MS = 5_000;

export class WaitingRoom {
  readonly #queues = new Map<string, FairQueue<Waiting>>();

  constructor(
    private readonly router: Pick<
      Router,
      "acquire" | "hasReady" | "hasRoom" | "isComing" | "meanSeconds" | "opensInMs"
    >,
    private readonly limits: WaitingLimits,
    private readonly demand: Demand,
    /** Resolves a name to its model: all names of a model share one queue. */
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
   * Returns a lease at once if a seat is free, otherwise a promise. Throws or rejects with the client's error.
   * @param onLeave receives a function that gives up waiting
   */
  enter(entrant: Entrant, onLeave: (leave: () => void) => void): Lease | Promise<Lease> {
    const { request } = entrant;
    const result =
      entrant.isRetry || this.numWaiting(request.model) === 0
        ? this.router.acquire(request, entrant.excluded)
        : this.#outlook(request);
    if (typeof result === "object") return result;
    const problem = this.#problem(result, entrant);
    if (problem !== undefined) throw problem;
    return new Promise((resolve, reject) => {
      const leave = this.#wait(entrant, (result) =>
        result instanceof MillraceError ? reject(result) : resolve(result),
      );
      onLeave(leave);
    });
  }

  /**
   * Admits requests that find a seat now, from the queues of all models, since models may share instances under several
   * names.
   */
  admit(): void {
    for (const queue of this.#queues.values()) this.#admitOf(queue);
  }

  #admitOf(queue: FairQueue<Waiting>): void {
    // Requests whose free seats are all on excluded instances; later requests may use those seats.
    const passedOver = new Set<Waiting>();
    for (let next = queue.peek(passedOver); next !== undefined; next = queue.peek(passedOver)) {
      const own = this.#queueOf(next.entrant.request.model);
      if (own !== queue) {
        // A reload has given the name to another model.
        queue.remove(next);
        next.queue = own;
        own.push(next);
        // This round may already be past that queue.
        this.#admitOf(own);
        continue;
      }
      const { request, excluded } = next.entrant;
      if (this.#settle(queue, next, this.router.acquire(request, excluded))) continue;
      if (excluded.length === 0 || !this.router.hasRoom(request)) return;
      passedOver.add(next);
    }
  }

  /** @returns whether the request has left the queue */
  #settle(queue: FairQueue<Waiting>, waiting: Waiting, result: Lease | Refusal): boolean {
    if (typeof result === "string") {
      // Waiting requests fail as soon as new ones do.
      const problem = this.#problem(result, waiting.entrant);
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

  /** The error for a request that would wait in vain; undefined while it may get a seat. */
  #problem(refusal: Refusal, { request, excluded }: Entrant): MillraceError | undefined {
    if (refusal === "none") return this.#hopelessness(request);
    if (refusal === "full") return undefined;
    // Wait for a limit that resets in a moment; otherwise another model may answer sooner.
    const ms = this.router.opensInMs(request, excluded);
    if (ms <= Math.min(MOST_PATIENCE_MS, this.limits.maxWaitMs)) return undefined;
    const message = `expected a paid API of ${request.model} with something left of its rate limits, got none`;
    return new MillraceError("upstream_limited", message, { retryAfterSeconds: Math.ceil(ms / 1000) });
  }

  /** The error if no instance of a model without a ready one will come. */
  #hopelessness(request: RoutedRequest): MillraceError | undefined {
    try {
      const isHopeful = this.demand(request.model) || this.router.isComing(request);
      return isHopeful ? undefined : noneReady(request.model);
    } catch (thrown) {
      // The model never fits into memory.
      return toMillraceError(thrown);
    }
  }

  #wait(entrant: Entrant, settle: (result: Lease | MillraceError) => void): () => void {
    const { request } = entrant;
    const { model, prefix, outputTokens } = request;
    const queue = this.#queueOf(model);
    const { isRetry, tenant } = entrant;
    if (!isRetry && queue.size >= this.limits.maxWaiting) throw this.#full(model, queue.size);
    const timer = setTimeout(() => {
      waiting.queue.remove(waiting);
      settle(this.#tooLong(request));
    }, this.limits.maxWaitMs);
    const cost = prefix.promptTokens + outputTokens;
    const priority = isRetry ? Number.NEGATIVE_INFINITY : entrant.priority;
    const waiting: Waiting = { entrant, settle, timer, queue, cost, priority, tenant };
    queue.push(waiting);
    // The request may be first in order, ahead of requests that cannot use the free seats.
    this.#admitOf(queue);
    return () => {
      clearTimeout(timer);
      waiting.queue.remove(waiting);
      settle(new MillraceError("client_closed", "expected the client to wait for its turn, got a closed connection"));
    };
  }

  #outlook(request: RoutedRequest): Refusal {
    return this.router.hasReady(request, []) ? "full" : "none";
  }

  #retryAfter(model: string): number {
    return Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(this.router.meanSeconds(model))));
  }

  #full(model: string, numWaiting: number): MillraceError {
    const message = `expected at most ${this.limits.maxWaiting} waiting requests, got ${numWaiting + 1}`;
    return new MillraceError("queue_full", message, { retryAfterSeconds: this.#retryAfter(model) });
  }

  #tooLong(request: RoutedRequest): MillraceError {
    const { model } = request;
    if (this.#outlook(request) === "none") return noneReady(model);
    const message = `expected a free seat within ${this.limits.maxWaitMs} ms, got none`;
    return new MillraceError("queue_full", message, { retryAfterSeconds: this.#retryAfter(model) });
  }
}

export function noneReady(model: string): MillraceError {
  return new MillraceError("no_instance_ready", `expected a ready instance of ${model}, got none`, {
    retryAfterSeconds: 1,
  });
}
