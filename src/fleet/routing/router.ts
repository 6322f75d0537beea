/**
 * Chooses the instance for each request and counts the requests under way: each choice is a lease that must be ended.
 */
import type { RateLimits } from "../../gateway/dialects/wire/rate-limits.js";
import type { CachedBlocks } from "../../text/cached-blocks.js";
import {
  type InstanceState,
  processOf,
  type Upstream,
  type UpstreamPool,
  type UpstreamTarget,
} from "../upstream/upstream.js";
import { type BreakerState, mayTry, onFailure, onFirstByte, onNothingLearnt, onSuccess, onTry } from "./breaker.js";
import { InstanceRecord } from "./instance-record.js";
import type { PrefixKeys } from "./key-source.js";
import { POLICIES, type RoutingCandidate, type RoutingPolicyName } from "./policies.js";

export interface RoutingOptions {
  readonly policy: RoutingPolicyName;
  /** Weight of the load against a full prefix match; 0 ignores the load. */
  readonly beta: number;
  /** Requests that an instance gets at once: this factor times its seats. */
  readonly seatFactor: number;
  /** Header that names the session, for the policy `session`; without the header, fields of the body name it. */
  readonly sessionHeader: string;
  /**
   * Time after which a request without an answer also goes to a second instance; auto: as measured; undefined: never.
   */
  readonly hedgeAfterMs?: number | "auto" | undefined;
}

export const DEFAULT_ROUTING: RoutingOptions = {
  policy: "prefix",
  beta: 1,
  seatFactor: 1,
  sessionHeader: "x-session-id",
};

/** The instances that a request may use. */
interface Destination {
  readonly model: string;
  /** The request comes from another region's gateway, so it must stay in this region. */
  readonly isFromAfar?: boolean;
}

export interface RoutedRequest extends Destination {
  readonly prefix: PrefixKeys;
  readonly outputTokens: number;
  /** Number of choices × number of prompts. */
  readonly numSequences: number;
  readonly session: string | undefined;
}

/** The instance's result in a lease: it answered, it failed, or the end is neutral. */
export type LeaseEnd = "answered" | "failed" | "unknown";

export interface Lease {
  readonly upstream: Upstream;
  readonly target: UpstreamTarget;
  readonly matchedFraction: number;
  /** Call it at the first byte, when the prompt is computed. @param isWell the answer is not an error */
  promptDone(isWell: boolean): void;
  /**
   * @param listener called, perhaps repeatedly, before the answer begins, if the instance is suspect or failed and
   *   another
   * may serve the request better
   */
  onLost(listener: () => void): void;
  /**
   * Learns the limits of a provider's key from its answer.
   * @param isRefusal the limits made the provider refuse the request
   */
  learn(limits: RateLimits, isRefusal: boolean): void;
  /** Further calls do nothing. */
  end(how: LeaseEnd): void;
}

/**
 * none: no instance is ready, except excluded ones; full: all seats of the ready instances are taken; limited: all free
 * seats belong to paid APIs whose keys have used up their limits.
 */
export type Refusal = "none" | "full" | "limited";

/** Weight of each new request in the moving averages. */
const MEAN_WEIGHT = 0.05;
const FIRST_MEAN_TOKENS = 512;
const FIRST_MEAN_MS = 1_000;

/** States in which an instance might not finish its requests. */
const DOUBTED: readonly InstanceState[] = ["suspect", "failed"];

/** The instances of the nearest region: a cached prefix in another region does not outweigh the distance. */
function nearest<T extends { readonly upstream: Upstream }>(open: readonly T[]): readonly T[] {
  const distanceOf = ({ upstream }: T) => upstream.target?.distance ?? 0;
  const least = open.reduce((min, each) => Math.min(min, distanceOf(each)), Number.POSITIVE_INFINITY);
  return open.filter((each) => distanceOf(each) === least);
}

class ModelState {
  turn = 0;
  meanTokens = FIRST_MEAN_TOKENS;
  meanMs = FIRST_MEAN_MS;
}

export class Router {
  readonly #models = new Map<string, ModelState>();
  /** Records by instance id, since one instance may serve several model names. */
  readonly #records = new Map<string, InstanceRecord>();
  readonly #endListening: () => void;
  /** Fires when a limited key opens, for the requests that wait for it. */
  #opening: { readonly timer: NodeJS.Timeout; readonly atMs: number } | undefined;

  /**
   * @param tokensPerBlock block size of a model's key source
   * @param blocksOf cached blocks that an instance reports; undefined if it reports none
   * @param onRoom called when waiting requests of any model may find a seat, or have lost the instance they waited for
   */
  constructor(
    private readonly pool: UpstreamPool,
    private readonly routingOf: (model: string) => RoutingOptions,
    private readonly tokensPerBlock: (model: string) => number,
    private readonly onRoom: () => void,
    private readonly now: () => number,
    private readonly blocksOf: (upstream: Upstream) => CachedBlocks | undefined = () => undefined,
  ) {
    this.#endListening = pool.onChange((upstream) => this.#onChange(upstream));
  }

  /** Share of the seats in use on a model's ready instances. */
  utilisation(model: string): number {
    const records = this.pool
      .upstreams(model)
      .flatMap(({ id, state }) => (state === "ready" ? (this.#records.get(id) ?? []) : []));
    const numBusy = records.reduce((sum, { numInFlight, numForeign }) => sum + numInFlight + numForeign, 0);
    return (
      numBusy /
      Math.max(
        1,
        records.reduce((sum, { seats }) => sum + seats, 0),
      )
    );
  }

  close(): void {
    this.#endListening();
    clearTimeout(this.#opening?.timer);
  }

  /** @param excluded processes that have already had the request */
  acquire(request: RoutedRequest, excluded: readonly string[]): Lease | Refusal {
    const model = this.#stateOf(request.model);
    const options = this.routingOf(request.model);
    const ready = this.#ready(request, excluded);
    if (ready.length === 0) return "none";
    const roomy = this.#withRoom(request, ready);
    const open = nearest(roomy.filter(({ record }) => this.#isOpen(record, request)));
    if (open.length === 0) {
      if (roomy.length === 0) return "full";
      this.#awaitOpening(request, roomy);
      return "limited";
    }
    const { prefix } = request;
    const numMatched = open.map(({ record }) => record.numMatched(prefix));
    const candidates = open.map(
      ({ record }, i): RoutingCandidate => ({
        id: record.id,
        matchedFraction: prefix.numBlocks === 0 ? 0 : numMatched[i]! / prefix.numBlocks,
        load: record.load(model.meanTokens),
        numInFlight: record.numInFlight,
      }),
    );
    const { session } = request;
    const index = POLICIES[options.policy]({ candidates, turn: model.turn++, beta: options.beta, session });
    const { upstream, record } = open[index]!;
    return this.#lease(request, model, upstream, record, candidates[index]!.matchedFraction);
  }

  /** Whether `acquire` without exclusions would return a lease. */
  hasRoom(request: RoutedRequest): boolean {
    return this.#withRoom(request, this.#ready(request, [])).some(({ record }) => this.#isOpen(record, request));
  }

  /** Whether an instance accepts requests now: it is ready, and a paid API's key has capacity left. */
  hasOpen(request: RoutedRequest, excluded: readonly string[]): boolean {
    return this.#ready(request, excluded).some((upstream) => this.#isOpen(this.#recordOf(upstream), request));
  }

  /** Time until the first limited key of a model opens; 0 if one is open. */
  opensInMs(request: RoutedRequest, excluded: readonly string[]): number {
    const nowMs = this.now();
    const times = this.#ready(request, excluded).map((upstream) => this.#opensAtMs(this.#recordOf(upstream), request));
    return Math.max(0, Math.min(...times) - nowMs);
  }

  hasReady(request: Destination, excluded: readonly string[]): boolean {
    return this.#ready(request, excluded).length > 0;
  }

  /** Whether an instance that is not ready now soon will be. */
  isComing(request: Destination): boolean {
    return this.#within(request).some((upstream) => upstream.isComing);
  }

  /** Sequences of this fleet on an instance. */
  numInFlight(id: string): number {
    return this.#records.get(id)?.numInFlight ?? 0;
  }

  /** State of an instance's breaker; closed before its first request. */
  breakerState(id: string): BreakerState {
    return this.#records.get(id)?.breaker.state ?? "closed";
  }

  /** Mean duration of the model's requests. */
  meanSeconds(model: string): number {
    return (this.#models.get(model)?.meanMs ?? FIRST_MEAN_MS) / 1000;
  }

  #stateOf(name: string): ModelState {
    const known = this.#models.get(name);
    if (known !== undefined) return known;
    const state = new ModelState();
    this.#models.set(name, state);
    return state;
  }

  /** The model's instances that the request may go to. */
  #within({ model, isFromAfar }: Destination): readonly Upstream[] {
    const all = this.pool.upstreams(model);
    return isFromAfar === true ? all.filter(({ target }) => (target?.distance ?? 0) === 0) : all;
  }

  /**
   * Ready instances with a closed breaker; all ready ones if every breaker is open, since refusing every request would
   * help no client.
   */
  #ready(request: Destination, excluded: readonly string[]): readonly Upstream[] {
    const ready = this.#within(request)
      .filter(({ state, target }) => state === "ready" && target !== undefined)
      .filter((upstream) => !excluded.includes(processOf(upstream)));
    const nowMs = this.now();
    const trusted = ready.filter(({ id }) => {
      const record = this.#records.get(id);
      return record === undefined || mayTry(record.breaker, nowMs);
    });
    return trusted.length === 0 ? ready : trusted;
  }

  #withRoom({ model, numSequences }: RoutedRequest, ready: readonly Upstream[]) {
    const { seatFactor } = this.routingOf(model);
    return ready
      .map((upstream) => ({ upstream, record: this.#recordOf(upstream) }))
      .filter(({ record }) => record.hasRoom(numSequences, seatFactor));
  }

  #opensAtMs({ limits }: InstanceRecord, { prefix, outputTokens }: RoutedRequest): number {
    return limits.opensAtMs(prefix.promptTokens + outputTokens, this.now());
  }

  #isOpen(record: InstanceRecord, request: RoutedRequest): boolean {
    return this.#opensAtMs(record, request) <= this.now();
  }

  #awaitOpening(request: RoutedRequest, limited: readonly { readonly record: InstanceRecord }[]): void {
    const nowMs = this.now();
    const atMs = Math.min(...limited.map(({ record }) => this.#opensAtMs(record, request)));
    if (this.#opening !== undefined && this.#opening.atMs <= atMs) return;
    clearTimeout(this.#opening?.timer);
    const timer = setTimeout(
      () => {
        // The timer may fire a little early; then it is set again.
        this.#opening = undefined;
        this.onRoom();
      },
      Math.max(1, atMs - nowMs),
    );
    timer.unref();
    this.#opening = { timer, atMs };
  }

  #recordOf(upstream: Upstream): InstanceRecord {
    const known = this.#records.get(upstream.id);
    const nowMs = this.now();
    if (known !== undefined && known.starts === upstream.starts) {
      known.observe(upstream, nowMs);
      return known;
    }
    this.#forgetGone();
    const record = new InstanceRecord(
      upstream,
      () => this.tokensPerBlock(upstream.model),
      () => this.blocksOf(upstream),
      nowMs,
    );
    this.#records.set(upstream.id, record);
    return record;
  }

  /** Drops records of instances that left the fleet without notice, after their last request. */
  #forgetGone(): void {
    const ids = new Set(this.pool.models().flatMap((model) => this.pool.upstreams(model).map(({ id }) => id)));
    for (const [id, { numInFlight }] of this.#records) {
      if (numInFlight === 0 && !ids.has(id)) this.#records.delete(id);
    }
  }

  #forgetIdle(record: InstanceRecord): void {
    if (record.numInFlight === 0 && this.#records.get(record.id) === record) this.#records.delete(record.id);
  }

  #lease(
    { prefix, outputTokens, numSequences }: RoutedRequest,
    model: ModelState,
    upstream: Upstream,
    record: InstanceRecord,
    matchedFraction: number,
  ): Lease {
    const beganMs = this.now();
    const heldTokens = prefix.promptTokens + outputTokens;
    // A prompt counts while its request runs; its uncached part counts twice during its computation.
    let tokens = heldTokens + Math.ceil(prefix.promptTokens * (1 - matchedFraction));
    let isOpen = true;
    let onLost = () => {};
    const lost = (): void => onLost();
    record.unanswered.add(lost);
    model.meanTokens += MEAN_WEIGHT * (heldTokens / numSequences - model.meanTokens);
    const endCredit = record.credit(prefix);
    record.begin(numSequences, tokens);
    record.breaker = onTry(record.breaker);
    const sent = record.limits.send(heldTokens);
    return {
      upstream,
      target: upstream.target!,
      matchedFraction,
      promptDone: (isWell) => {
        if (!isOpen) return;
        record.unanswered.delete(lost);
        record.end(0, tokens - heldTokens);
        tokens = heldTokens;
        if (isWell) record.breaker = onFirstByte(record.breaker);
      },
      onLost: (listener) => {
        onLost = listener;
      },
      learn: (limits, isRefusal) => record.limits.learn(limits, sent, isRefusal, this.now()),
      end: (how) => {
        if (!isOpen) return;
        isOpen = false;
        record.unanswered.delete(lost);
        record.end(numSequences, tokens);
        endCredit();
        if (record.isDown) this.#forgetIdle(record);
        const nowMs = this.now();
        if (how === "answered") {
          record.breaker = onSuccess();
          model.meanMs += MEAN_WEIGHT * (nowMs - beganMs - model.meanMs);
        } else if (how === "failed") record.breaker = onFailure(record.breaker, nowMs);
        else record.breaker = onNothingLearnt(record.breaker);
        this.onRoom();
      },
    };
  }

  #onChange(upstream: Upstream): void {
    const record = this.#records.get(upstream.id);
    if (record !== undefined) {
      record.isDoubted = DOUBTED.includes(upstream.state);
      if (record.isDoubted) record.tellLost();
      record.isDown = upstream.state === "stopped" || upstream.state === "failed";
      if (record.starts !== upstream.starts) this.#records.delete(upstream.id);
      else if (record.isDown) this.#forgetIdle(record);
      else if (upstream.state === "asleep")
        record.index.clear(); // A sleeping engine frees its cache.
      else record.observe(upstream, this.now());
    }
    // Requests on doubted instances without an alternative may move to this one.
    if (upstream.state === "ready") {
      for (const each of [...this.#records.values()]) if (each.isDoubted) each.tellLost();
    }
    this.onRoom();
  }
}
