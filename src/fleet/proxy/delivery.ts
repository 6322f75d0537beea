/**
 * Sends a request to instances until one answers. If an instance refuses it, breaks off or falls silent before its
 * answer begins, another gets it. With hedging, a slow request also goes to a second instance: the first answer wins,
 * and the other attempt is cancelled.
 */
import { randomBytes } from "node:crypto";
import type { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../../gateway/answer.js";
import { isOwnPath } from "../../gateway/api/routes.js";
import { rateLimitsOf, retryDelayOf } from "../../gateway/dialects/wire/rate-limits.js";
import type { AttemptRecord } from "../../gateway/usage/record.js";
import type { Lease, LeaseEnd } from "../routing/router.js";
import type { EngineName } from "../upstream/engine.js";
import { processOf } from "../upstream/upstream.js";
import { AnswerCounts } from "./answer-counts.js";
import type { Sendable, UpstreamContext } from "./arrival.js";
import { Attempt, type AttemptContext, type AttemptResult, type Refused } from "./attempt.js";
import type { KeyWarnings } from "./key-warnings.js";
import { type Message, messageTo } from "./message.js";

interface Delivered {
  readonly result: Exclude<AttemptResult, Refused>;
  /** Undefined if the client left before the sending. */
  readonly instanceId: string | undefined;
}

/** The result of an attempt, with its lease. */
interface Ended {
  readonly result: AttemptResult;
  readonly lease: Lease;
}

/** A request on which two processes broke the connection may have crashed them, so no third gets it. */
const MAX_RESETS = 2;

const CANCELLED = { kind: "cancelled" } as const;

export class Delivery {
  readonly #running = new Map<Attempt, Lease>();
  /** Processes that failed this request. Their replacements may still get it. */
  #excluded: readonly string[] = [];
  #numLeft: number;
  readonly #resets = new Set<string>();
  #leaveRoom = () => {};
  #isAbandoned = false;
  #drawnSeed: number | undefined;

  constructor(
    private readonly context: UpstreamContext,
    private readonly sendable: Sendable,
    private readonly sink: AnswerSink,
  ) {
    this.#numLeft = context.options.limits.maxAttempts;
    context.hedging.requested(sendable.entrant.request.model);
  }

  /** Cancels the request. @param error ends an answer that has begun; undefined: the client has left */
  abandon(error?: MillraceError): void {
    this.#isAbandoned = true;
    this.#leaveRoom();
    for (const attempt of [...this.#running.keys()]) attempt.cancel(error);
  }

  /** Rejects with the client's error if no instance answers. */
  async run(): Promise<Delivered> {
    const { waitingRoom } = this.context;
    for (let isRetry = false; !this.#isAbandoned; isRetry = true) {
      const { request, tenant, priority } = this.sendable.entrant;
      const entrant = { request, tenant, priority, excluded: this.#excluded, isRetry };
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
      this.sendable.request.observer.retried(id, result.error.message);
    }
    return { result: CANCELLED, instanceId: undefined };
  }

  /** Throws if the request must not be sent again. */
  async #prepareRetry({ how, error }: Refused, { upstream }: Lease): Promise<void> {
    const { router } = this.context;
    const { request } = this.sendable.entrant;
    const verdict = this.#report(how, upstream.id);
    if (how === "reset" && this.#resets.add(processOf(upstream)).size === MAX_RESETS) throw error;
    // A redirect is the server's setting for the path, so other instances have it too.
    if (this.#numLeft === 0 || how === "redirected") throw error;
    // A suspect or failed instance gets no requests now; once it is ready, it may get this one again.
    if (how === "forsaken") return;
    this.#excluded = [...this.#excluded, processOf(upstream)];
    if (router.hasReady(request, this.#excluded)) return;
    // Every instance has been tried. A busy one stays busy; a request that was too slow or had an unreadable answer
    // would fail again.
    if (how === "busy" || how === "late" || how === "malformed") throw error;
    // The health check decides: an idle connection may have closed at the moment of its use, or a new process may be
    // starting.
    await verdict;
    if (!router.hasReady(request, []) && !router.isComing(request)) throw error;
    this.#excluded = [];
  }

  #report(how: Refused["how"], instanceId: string): Promise<void> | undefined {
    const isInstanceAtFault = how !== "busy" && how !== "forsaken";
    return isInstanceAtFault ? this.context.options.pool.reportFailure(instanceId) : undefined;
  }

  /**
   * Makes one attempt, and a second one if the first has no answer after `hedgeAfterMs`.
   * @returns the attempt with an answer, otherwise the last to fail
   */
  #race(first: Lease): Promise<Ended> {
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const fail = (thrown: unknown): void => {
        // If the second copy cannot be sent, to an engine of another kind, the first continues.
        if (this.#running.size > 0) return;
        clearTimeout(timer);
        reject(thrown);
      };
      const start = (lease: Lease): void => {
        this.#attempt(lease, () => clearTimeout(timer)).then((result) => {
          if (result === undefined) return;
          // The other attempt may still answer.
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

  /** Undefined on paths where a second copy of the request might have effects. */
  #hedgeAfterMs(): number | undefined {
    const { hedging, options } = this.context;
    const { model, prefix } = this.sendable.entrant.request;
    if (!this.sendable.request.route.isHarmlessTwice) return undefined;
    const { hedgeAfterMs } = options.routing(model);
    return hedgeAfterMs === "auto" ? hedging.delayMs(this.#pace(model), prefix.promptTokens) : hedgeAfterMs;
  }

  /**
   * Leases a free seat on another instance, unless requests are waiting for seats, most seats are taken, or the budget
   * is spent.
   */
  #hedge(first: Lease): Lease | undefined {
    const { router, waitingRoom, hedging } = this.context;
    const { request } = this.sendable.entrant;
    const { model } = request;
    if (this.#isAbandoned || this.#numLeft === 0 || waitingRoom.numWaiting(model) > 0) return undefined;
    if (!hedging.mayHedge(model, router.utilisation(model))) return undefined;
    const lease = router.acquire(request, [...this.#excluded, processOf(first.upstream)]);
    if (typeof lease === "string") return undefined;
    // A paid API charges for the second answer as well.
    if (lease.target.provider !== undefined) {
      lease.end("unknown");
      return undefined;
    }
    hedging.hedged(model);
    this.sendable.request.observer.hedged?.(lease.upstream.id);
    return lease;
  }

  /** @returns undefined if another attempt answered first */
  async #attempt(lease: Lease, onAnswer: () => void): Promise<AttemptResult | undefined> {
    const { router, connections } = this.context;
    const { route, observer, record: requestRecord } = this.sendable.request;
    const { watcher } = requestRecord;
    const { upstream, target } = lease;
    const seed = upstream.engine === "millrace" && route.takesSeed ? this.#seed() : undefined;
    const message = this.#message(lease, seed);
    const { translation } = message;
    this.#numLeft--;
    const isHedge = this.#running.size > 0;
    const record = this.#newRecord(lease);
    const counts = this.#answerCounts(translation);
    if (!isHedge) observer.routed(upstream.id, lease.matchedFraction);
    const attempt = new Attempt({
      instanceId: upstream.id,
      sink: this.sink,
      timeouts: this.context.options.timeouts,
      mayRetry: () =>
        this.#running.size > 1 ||
        (this.#numLeft > 0 && router.hasOpen(this.sendable.entrant.request, [...this.#excluded, processOf(upstream)])),
      onFirstByte: (status) => {
        onAnswer();
        this.#beatOthers(attempt);
        lease.promptDone(status < 500);
        if (isHedge) observer.routed(upstream.id, lease.matchedFraction);
        record.firstByteMs = performance.now();
        record.status = status;
        if (!isHedge && status < 400) this.#observeFirstByte(record);
        watcher?.answering(record);
        observer.firstByte();
      },
      usage: counts.reader,
      onComplete: () => this.#countWhole(record, counts),
      translation,
      ...(translation === undefined ? {} : limitListeners(lease, this.context.keyWarnings)),
    });
    this.#running.set(attempt, lease);
    lease.onLost(() => attempt.forsake());
    let result: AttemptResult = CANCELLED;
    let isHeard = true;
    try {
      result = await attempt.run(connections.poolOf(target.url), message);
    } finally {
      isHeard = this.#running.delete(attempt);
      record.endMs = performance.now();
      // The second copy answered first. This attempt would have taken at least as long as it has so far.
      if (!isHeard && !isHedge) this.#observeFirstByte(record);
      if (result.kind === "answered" && translation !== undefined) learnFromBody(lease, translation.errorBody);
      this.#noteResult(record, result, counts);
      watcher?.ended(record);
      lease.end(leaseEnd(result, upstream.engine));
    }
    return isHeard ? result : undefined;
  }

  #newRecord({ upstream }: Lease): AttemptRecord {
    const { attempts, watcher } = this.sendable.request.record;
    const { modelOf } = this.context.options;
    const record: AttemptRecord = {
      instance: upstream.id,
      engine: upstream.engine,
      // Prices and spend are the model's own, whatever the client calls it.
      model: modelOf?.(upstream.model) ?? upstream.model,
      startMs: performance.now(),
    };
    attempts.push(record);
    watcher?.began(record);
    return record;
  }

  get #reportsUsage(): boolean {
    const { route, path } = this.sendable.request;
    return route.isGeneration || path.endsWith("/embeddings");
  }

  #answerCounts(translation: Message["translation"]): AnswerCounts {
    const { route, observer, record } = this.sendable.request;
    const isUsed = record.wantsUsage ? route.runsPrompt : this.#reportsUsage && observer.used !== undefined;
    return new AnswerCounts(isUsed, translation);
  }

  /** Counts the tokens of a complete answer. */
  #countWhole(record: AttemptRecord, counts: AnswerCounts): void {
    const { route, path, observer, record: requestRecord } = this.sendable.request;
    const { promptTokens } = this.sendable.entrant.request.prefix;
    // An answer without reported usage is not free: its tokens are estimated. Other paths may have no tokens at all.
    const isEstimable = requestRecord.wantsUsage && isOwnPath(path);
    const estimated = () => (isEstimable ? counts.estimate(promptTokens, route.isGeneration) : undefined);
    // An error costs nothing, whatever usage it reports.
    const whole = isSuccess(record) ? (counts.whole() ?? estimated()) : undefined;
    if (whole !== undefined) record.usage = whole;
    requestRecord.watcher?.completing(record);
    const used = this.#reportsUsage ? counts.usage() : undefined;
    if (used !== undefined) observer.used?.(used);
  }

  #noteResult(record: AttemptRecord, result: AttemptResult, counts: AnswerCounts): void {
    record.outcome = result.kind;
    if (result.kind === "refused") record.status = result.status;
    else if (result.kind !== "answered" && isSuccess(record)) {
      const cut = counts.cut(this.sendable.entrant.request.prefix.promptTokens);
      // A policy may have recorded the usage of the part that it passed on.
      if (cut !== undefined) record.usage ??= cut;
    }
  }

  /** Throws the client's error if the instance cannot serve this request; the lease has then ended. */
  #message(lease: Lease, seed: number | undefined): Message {
    try {
      return messageTo(lease, this.sendable, seed, this.sendable.request.observer.traceparent);
    } catch (thrown) {
      lease.end("unknown");
      throw thrown;
    }
  }

  #observeFirstByte({ startMs, firstByteMs = performance.now() }: AttemptRecord): void {
    const { model, prefix } = this.sendable.entrant.request;
    this.context.hedging.observe(this.#pace(model), prefix.promptTokens, firstByteMs - startMs);
  }

  /** The first byte of an answer without a stream comes with its last. */
  #pace(model: string): string {
    return this.sendable.request.isStream ? model : `${model}\nwhole`;
  }

  #beatOthers(winner: Attempt): void {
    for (const attempt of [...this.#running.keys()]) {
      if (attempt === winner) continue;
      this.#running.delete(attempt);
      attempt.cancel();
    }
  }

  /**
   * Draws the seed once per request, so that the answer does not depend on the instance that gives it (exactness rule
   * E5).
   */
  #seed(): number | undefined {
    if ("seed" in this.sendable.request.body) return undefined;
    // Seeds below 2⁴⁸ are exact in every JSON parser.
    this.#drawnSeed ??= randomBytes(6).readUIntBE(0, 6);
    return this.#drawnSeed;
  }
}

const isSuccess = ({ status = 0 }: AttemptRecord): boolean => status >= 200 && status < 300;

/** Reports the limits of a provider's key to the router, from its answers. Google puts them into a refusal's body. */
function limitListeners(lease: Lease, keyWarnings: KeyWarnings): Pick<AttemptContext, "onHead" | "onRefusalBody"> {
  const { id, engine, model } = lease.upstream;
  return {
    onHead: (status, headers) => {
      keyWarnings.answered(id, engine, model, status);
      lease.learn(rateLimitsOf(headers, Date.now()), status === 429);
    },
    onRefusalBody: (body) => learnFromBody(lease, body),
  };
}

function learnFromBody(lease: Lease, body: Buffer | undefined): void {
  const retryAfterMs = body === undefined ? undefined : retryDelayOf(body);
  if (retryAfterMs !== undefined) lease.learn({ retryAfterMs }, true);
}

/**
 * The instance's state after an attempt. A 429 is not a failure: a limit is used up, and the router learns when it
 * resets. A 503, and Anthropic's 529, mean that the server accepts nothing, and rarely for how long: after three in a
 * row, the breaker's pauses replace that time.
 */
function leaseEnd(result: AttemptResult, engine: EngineName): LeaseEnd {
  switch (result.kind) {
    case "answered":
      // Our own engine answers 504 if the request's own `timeout` was too short.
      if (engine === "millrace" && result.status === 504) return "unknown";
      // 501 means a missing feature, not a failing engine.
      if (result.status === 501) return "unknown";
      return result.status >= 500 ? "failed" : "answered";
    case "refused":
      // The health check judges a silent instance, once for all its requests.
      return result.status === 429 || result.how === "forsaken" || result.how === "redirected" ? "unknown" : "failed";
    case "cancelled":
      return "unknown";
    default:
      return "failed";
  }
}
