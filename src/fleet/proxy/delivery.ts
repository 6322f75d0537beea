/**
 * Sends a request to instances until one answers: to another where one does not take it, breaks off or falls silent before its answer has begun, and to
 * two at once where the first is slow and that is wanted. Whoever answers first is heard; the other is told to stop.
 */
import { randomBytes } from "node:crypto";
import type { MillraceError } from "../../core/errors.js";
import type { Lease, LeaseEnd } from "../routing/router.js";
import type { EngineName } from "../upstream/engine.js";
import { processOf } from "../upstream/upstream.js";
import type { Arrival, ExchangeContext, Sendable } from "./arrival.js";
import { Attempt, type AttemptResult, type Refused } from "./attempt.js";
import { messageTo } from "./message.js";
import type { RequestObserver } from "./observer.js";

export interface Delivered {
  readonly result: Exclude<AttemptResult, Refused>;
  /** Undefined: the client had left before it was sent anywhere. */
  readonly instanceId: string | undefined;
}

/** How an attempt ended, and where it was. */
interface Ended {
  readonly result: AttemptResult;
  readonly lease: Lease;
}

/** Processes that may break a request's connection before its answer's first byte: what ends one after the other is not given a third. */
const MAX_RESETS = 2;

const CANCELLED = { kind: "cancelled" } as const;

export class Delivery {
  readonly #running = new Map<Attempt, Lease>();
  /** Processes that this request was sent to in vain; one that is started in place of such a process may have it. */
  #excluded: readonly string[] = [];
  #numLeft: number;
  readonly #resets = new Set<string>();
  #leaveRoom = () => {};
  #isAbandoned = false;
  #drawnSeed: number | undefined;

  constructor(
    private readonly context: ExchangeContext,
    private readonly arrival: Arrival,
    private readonly sendable: Sendable,
    private readonly observer: RequestObserver,
  ) {
    this.#numLeft = context.options.limits.maxAttempts;
  }

  /** Nobody waits for it any more. @param error ends an answer that has begun; undefined: the client left */
  abandon(error?: MillraceError): void {
    this.#isAbandoned = true;
    this.#leaveRoom();
    for (const attempt of [...this.#running.keys()]) attempt.cancel(error);
  }

  /** Rejects with what the client is told where no instance answers. */
  async run(): Promise<Delivered> {
    const { waitingRoom } = this.context;
    for (let isRetry = false; !this.#isAbandoned; isRetry = true) {
      const entrant = { ...this.sendable.entrant, excluded: this.#excluded, isRetry };
      const lease = await waitingRoom.enter(entrant, (leave) => {
        this.#leaveRoom = leave;
      });
      if (this.#isAbandoned) {
        lease.end("unknown");
        break;
      }
      const { result, lease: last } = await this.#race(lease);
      const { id } = last.upstream;
      if (result.kind !== "refused") return { result, instanceId: id };
      await this.#prepareRetry(result, last);
      this.observer.retried(id, result.error.message);
    }
    return { result: CANCELLED, instanceId: undefined };
  }

  /** Throws where the request is not to be sent again. */
  async #prepareRetry({ how, error }: Refused, { upstream }: Lease): Promise<void> {
    const { router } = this.context;
    const { model } = this.sendable.entrant.request;
    const verdict = this.#report(how, upstream.id);
    if (how === "reset" && this.#resets.add(processOf(upstream)).size === MAX_RESETS) throw error;
    if (this.#numLeft === 0) throw error;
    // Nothing goes there while it is doubted, and when it no longer is it is as good as any.
    if (how === "forsaken") return;
    this.#excluded = [...this.#excluded, processOf(upstream)];
    if (router.hasReady(model, this.#excluded)) return;
    // Busy ones stay busy, and what was too late once will be again.
    if (how === "busy" || how === "late") throw error;
    // Its health decides: a connection may just have been closed as it was used, or a new process is on its way.
    await verdict;
    if (!router.hasReady(model, []) && !router.isComing(model)) throw error;
    this.#excluded = [];
  }

  #report(how: Refused["how"], instanceId: string): Promise<void> | undefined {
    const isInstanceAtFault = how !== "busy" && how !== "forsaken";
    return isInstanceAtFault ? this.context.options.pool.reportFailure(instanceId) : undefined;
  }

  /** One attempt, and a second beside it if it has not answered after `hedgeAfterMs`. @returns the one that answered, else the last one to fail */
  #race(first: Lease): Promise<Ended> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const fail = (thrown: unknown): void => {
        clearTimeout(timer);
        reject(thrown);
      };
      const start = (lease: Lease): void => {
        this.#attempt(lease, () => clearTimeout(timer)).then((result) => {
          if (result === undefined) return;
          // The other one may still answer.
          if (result.kind === "refused" && this.#running.size > 0) this.#report(result.how, lease.upstream.id);
          else {
            clearTimeout(timer);
            resolve({ result, lease });
          }
        }, fail);
      };
      const hedgeAfterMs = this.#hedgeAfterMs();
      if (hedgeAfterMs !== undefined) {
        timer = setTimeout(() => {
          const second = this.#hedge(first);
          if (second !== undefined) start(second);
        }, hedgeAfterMs);
      }
      start(first);
    });
  }

  /** Only where a second instance changes nothing but the time. */
  #hedgeAfterMs(): number | undefined {
    const { route } = this.arrival;
    return route.isHarmlessTwice
      ? this.context.options.routing(this.sendable.entrant.request.model).hedgeAfterMs
      : undefined;
  }

  /** A free seat elsewhere that nobody waits for. */
  #hedge(first: Lease): Lease | undefined {
    const { router, waitingRoom } = this.context;
    const { request } = this.sendable.entrant;
    if (this.#isAbandoned || this.#numLeft === 0 || waitingRoom.numWaiting(request.model) > 0) return undefined;
    const lease = router.acquire(request, [...this.#excluded, processOf(first.upstream)]);
    if (typeof lease === "string") return undefined;
    this.observer.hedged?.(lease.upstream.id);
    return lease;
  }

  /** @returns undefined: another one has answered */
  async #attempt(lease: Lease, onAnswer: () => void): Promise<AttemptResult | undefined> {
    const { options, router, connections } = this.context;
    const { outgoing, requestId, route, path } = this.arrival;
    const { upstream, target } = lease;
    this.#numLeft--;
    const isHedge = this.#running.size > 0;
    if (!isHedge) this.observer.routed(upstream.id, lease.matchedFraction);
    const attempt = new Attempt({
      instanceId: upstream.id,
      requestId,
      dialect: route.dialect,
      outgoing,
      timeouts: options.timeouts,
      mayRetry: () =>
        this.#running.size > 1 ||
        (this.#numLeft > 0 && router.hasReady(upstream.model, [...this.#excluded, processOf(upstream)])),
      onFirstByte: (status) => {
        onAnswer();
        this.#beatOthers(attempt);
        lease.promptDone(status < 500);
        if (isHedge) this.observer.routed(upstream.id, lease.matchedFraction);
        this.observer.firstByte();
      },
      turn: this.sendable.turn,
      onUsage: route.isGeneration || path.endsWith("/embeddings") ? this.observer.used : undefined,
    });
    this.#running.set(attempt, lease);
    lease.onLost(() => attempt.forsake());
    let result: AttemptResult = CANCELLED;
    let isHeard = true;
    try {
      const seed = upstream.engine === "millrace" && route.takesSeed ? this.#seed() : undefined;
      const message = messageTo(lease, this.arrival, this.sendable, seed, this.observer.traceparent);
      result = await attempt.run(connections.poolOf(target.url), message);
    } finally {
      isHeard = this.#running.delete(attempt);
      lease.end(leaseEnd(result, upstream.engine));
    }
    return isHeard ? result : undefined;
  }

  #beatOthers(winner: Attempt): void {
    for (const attempt of [...this.#running.keys()]) {
      if (attempt === winner) continue;
      this.#running.delete(attempt);
      attempt.cancel();
    }
  }

  /** Drawn once, at the door: whichever instance answers in the end, the answer is the same (exactness rule E5). */
  #seed(): number | undefined {
    if ("seed" in this.sendable.body) return undefined;
    // Below 2⁴⁸, which is exact in every JSON parser.
    this.#drawnSeed ??= randomBytes(6).readUIntBE(0, 6);
    return this.#drawnSeed;
  }
}

/** What an attempt tells of the instance. Being busy is not being ill; an error for every request is. */
function leaseEnd(result: AttemptResult, engine: EngineName): LeaseEnd {
  switch (result.kind) {
    case "answered":
      // Our own engine's deadline_exceeded: the request's own `timeout` was too short.
      if (engine === "millrace" && result.status === 504) return "unknown";
      // What an engine does not offer, it does not offer to anybody, and well.
      if (result.status === 501) return "unknown";
      return result.status >= 500 ? "failed" : "answered";
    case "refused":
      // Whether a silent one is ill is asked by health checks, once for all its requests.
      return result.status === 429 || result.how === "forsaken" ? "unknown" : "failed";
    case "cancelled":
      return "unknown";
    default:
      return "failed";
  }
}
