/**
 * The exact cache: a policy that answers a request with the kept answer of an equal one, and lets equal requests under
 * way share one run. Requests are equal in everything that determines the answer.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { LARGE_BODY_BYTES } from "../../core/json-body.js";
import { type AnswerHead, type AnswerSink, HeaderSink, PassingSink, withHeaders } from "../answer.js";
import { UsageReader } from "../api/usage.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import { type RunAnswer, type RunResult, SharedRun } from "../shared-run.js";
import type { TokenCounts } from "../usage/record.js";
import {
  type AnswerKey,
  answerKey,
  CACHEABLE_PATHS,
  type CacheScope,
  canonicalBody,
  tenantScope,
} from "./answer-key.js";
import type { AnswerStore, PurgeFilter, StoreStats } from "./answer-store.js";
import { type Directives, directivesOf, tagsOf } from "./directives.js";
import { type AnswerRules, type Ineligible, ineligible } from "./eligibility.js";
import { FreshIds } from "./fresh-ids.js";
import { isOwnAnswer } from "./own-answer.js";
import { type Pace, replay } from "./replay.js";
import type { StoredAnswer } from "./stored-answer.js";
import { isWholeAnswer } from "./whole-answer.js";

/** The name of the policy in the ledger's notes. */
export const CACHE_NOTE = "cache";

/** The operator's settings for a model. */
export interface CacheSettings {
  readonly ttlMs: number;
  readonly maxAnswerBytes: number;
  readonly keepsSampled: boolean;
  readonly assumesDeterministic: boolean;
  readonly pace: Pace;
  /** Name of the answers that all tenants share; undefined: each tenant has its own. */
  readonly sharedAs: string | undefined;
  /** Names of further headers that change answers, in lower case. */
  readonly headers: readonly string[];
}

/** The facts about a model that its answers depend on. */
export interface CachedModel {
  /** The model's own name, whatever the client calls it. */
  readonly name: string;
  /** Changes with the model's weights, engine and settings. Undefined while unknown: nothing is looked up or kept. */
  readonly version: string | undefined;
  readonly isOwnEngine: boolean;
  readonly settings: CacheSettings;
}

export type CacheResult = "hit" | "joined" | "miss" | "stale" | "bypass";

/** The outcomes of a model's requests at the cache, and the tokens of repeated answers. */
interface CacheCounts extends Record<CacheResult, number> {
  savedPromptTokens: number;
  savedOutputTokens: number;
}

export interface CacheStats extends StoreStats {
  /** Runs that requests may join. */
  readonly running: number;
  /** When counting began. */
  readonly countedSince: string;
  readonly models: readonly (CacheCounts & { readonly model: string })[];
}

interface ExactCacheOptions {
  readonly store: AnswerStore;
  /** @returns undefined if the model has no cache */
  modelOf(name: string): CachedModel | undefined;
  /**
   * Whether the gateway checks clients' keys itself. If not, the upstream does, and requests with different keys share
   * nothing.
   */
  hasOwnKeys(): boolean;
  onResult?(model: string, result: CacheResult, saved: TokenCounts | undefined): void;
  readonly now?: () => number;
}

/** After this many failed runs of other requests, a request stops waiting and is sent by itself. */
const MAX_FAILED_RUNS = 2;
/** Kept headers of an answer: they describe its bytes. Other headers are about the moment, or about another client. */
const KEPT_HEADERS: readonly string[] = ["content-type", "cache-control", "x-accel-buffering", "x-millrace-unenforced"];

/** A request that the cache may answer. */
interface Candidate {
  readonly key: AnswerKey;
  readonly model: CachedModel;
  readonly version: string;
  readonly tags: readonly string[];
}

interface Running {
  readonly run: SharedRun;
  /** The request that started the run: its record has the counts. */
  readonly leader: GatewayRequest;
}

export class ExactCache implements Policy {
  readonly name = CACHE_NOTE;
  readonly #runs = new Map<string, Running>();
  readonly #now: () => number;
  readonly #startedMs: number;
  /** Counts by the model's own name. */
  readonly #counts = new Map<string, CacheCounts>();
  /** Number of purges: one may be meant for the answer of a run that began before it. */
  #numPurges = 0;

  readonly #identityOf = (name: string) => {
    const found = this.options.modelOf(name);
    return found && { model: found.name, version: found.version };
  };

  constructor(private readonly options: ExactCacheOptions) {
    this.#now = options.now ?? Date.now;
    this.#startedMs = this.#now();
  }

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    if (!CACHEABLE_PATHS.includes(request.path)) return next(request, sink);
    const { model: name, record } = request;
    // A route may have tried another model before, which has failed.
    record.kept = undefined;
    record.notes.delete(CACHE_NOTE);
    const model = this.options.modelOf(name);
    return model === undefined ? next(request, sink) : this.#handle(request, sink, next, model);
  }

  async purge(filter: PurgeFilter): Promise<number> {
    this.#numPurges++;
    return await this.options.store.purge(filter);
  }

  async stats(): Promise<CacheStats> {
    return {
      ...(await this.options.store.stats()),
      running: this.#runs.size,
      countedSince: new Date(this.#startedMs).toISOString(),
      models: [...this.#counts].map(([model, counts]) => ({ model, ...counts })),
    };
  }

  async close(): Promise<void> {
    await this.options.store.close();
  }

  async #handle(request: GatewayRequest, sink: AnswerSink, next: Handler, model: CachedModel): Promise<Ending> {
    const directives = directivesOf(request.headers);
    const candidate = this.#candidate(request, model, directives);
    if (typeof candidate === "string") {
      if (directives.onlyIfCached) throw notCached(`a request whose answers are not kept (${candidate})`);
      this.#note(request, model.name, "bypass", candidate);
      return next(request, marked(sink, { "x-millrace-cache": "bypass" }));
    }
    const { key } = candidate;
    let isStale = false;
    if (!directives.noCache) {
      const found = this.options.store.get(key.id);
      const answer = found instanceof Promise ? await found : found;
      isStale = answer !== undefined && this.#isTooOld(answer, directives);
      if (answer !== undefined && !isStale) return this.#hit(request, sink, answer, model);
    }
    if (directives.onlyIfCached) throw notCached(isStale ? "an older one" : "none");
    const result = isStale ? "stale" : "miss";
    return await (this.#runs.has(key.flight)
      ? this.#runOrJoin(request, sink, next, candidate, result)
      : this.#lead(request, sink, next, candidate, result));
  }

  /** @returns the reason, in a word, if the request is no candidate */
  #candidate(request: GatewayRequest, model: CachedModel, { noStore }: Directives): Candidate | Bypass {
    const { version, settings } = model;
    if (noStore) return "no-store";
    if (version === undefined) return "version";
    if (request.bytes.length > LARGE_BODY_BYTES) return "size";
    const body = canonicalBody(request);
    if (body === undefined) return "inexact";
    const { keepsSampled, assumesDeterministic } = settings;
    const rules: AnswerRules = { isOwnEngine: model.isOwnEngine, keepsSampled, assumesDeterministic };
    const reason = ineligible(request, rules, body.kept);
    if (reason !== undefined) return reason;
    const { sharedAs, headers } = settings;
    const own = tenantScope(request, this.options.hasOwnKeys());
    const scope: CacheScope = sharedAs === undefined ? own : { ...own, kind: "shared", name: sharedAs };
    const key = answerKey(request, body, { scope, model: model.name, version, headers });
    return { key, model, version, tags: tagsOf(request.headers) };
  }

  #isTooOld({ createdMs }: StoredAnswer, { maxAgeSeconds }: Directives): boolean {
    return maxAgeSeconds !== undefined && this.#now() - createdMs > maxAgeSeconds * 1000;
  }

  #hit(request: GatewayRequest, sink: AnswerSink, answer: StoredAnswer, { name, settings }: CachedModel) {
    const ageSeconds = Math.max(0, Math.floor((this.#now() - answer.createdMs) / 1000));
    this.#save(request, name, "hit", answer.usage);
    request.observer.firstByte();
    const headers = { "x-millrace-cache": "hit", "x-millrace-cache-age": String(ageSeconds) };
    return replay(answer, headers, new FreshIds(sink), request.cancellation, settings.pace);
  }

  async #runOrJoin(
    request: GatewayRequest,
    sink: AnswerSink,
    next: Handler,
    candidate: Candidate,
    result: "miss" | "stale",
  ): Promise<Ending> {
    const { key, model } = candidate;
    for (let numFailed = 0; numFailed < MAX_FAILED_RUNS; numFailed++) {
      const running = this.#runs.get(key.flight);
      if (running === undefined) return await this.#lead(request, sink, next, candidate, result);
      const { run, leader } = running;
      request.record.kept = { model: model.name, usage: undefined };
      const ending = await run.read(joined(sink, request), request.cancellation);
      if (ending === undefined) {
        request.record.kept = undefined;
        continue;
      }
      const usage = ending.kind === "answered" ? usageOf((await run.result).answer, leader) : undefined;
      this.#save(request, model.name, "joined", usage);
      return ending;
    }
    this.#note(request, model.name, result);
    return await next(request, marked(sink, { "x-millrace-cache": result }));
  }

  /** Not async: a miss costs no promise but the run's. */
  #lead(
    request: GatewayRequest,
    sink: AnswerSink,
    next: Handler,
    candidate: Candidate,
    result: "miss" | "stale",
  ): Promise<Ending> {
    const { key, model } = candidate;
    this.#note(request, model.name, result);
    const numPurges = this.#numPurges;
    const run = new SharedRun(
      (into, cancellation) => next({ ...request, cancellation }, into),
      { maxBytes: model.settings.maxAnswerBytes, lingerMs: 0 },
      () => this.#runs.get(key.flight)?.run === run && this.#runs.delete(key.flight),
    );
    this.#runs.set(key.flight, { run, leader: request });
    void run.result.then((ended) => {
      if (numPurges === this.#numPurges) this.#keep(request, candidate, ended);
    });
    // The owner of a run always gets an ending.
    return run.read(marked(sink, { "x-millrace-cache": result }), request.cancellation, true) as Promise<Ending>;
  }

  #keep(request: GatewayRequest, { key, model, version, tags }: Candidate, { answer }: RunResult): void {
    if (answer === undefined || !isOwnAnswer(request, { model: model.name, version }, this.#identityOf)) return;
    const { head, body, marks } = answer;
    const { isEventStream, headers } = head;
    if (head.status !== 200 || headers["content-encoding"] !== undefined) return;
    if (
      isEventStream !== request.isStream ||
      !isWholeAnswer(request.path, isEventStream, body, request.record.isBounded)
    )
      return;
    const createdMs = this.#now();
    const stored: StoredAnswer = {
      model: model.name,
      tenant: model.settings.sharedAs ?? request.caller.tenant,
      tags,
      createdMs,
      expiresMs: createdMs + model.settings.ttlMs,
      status: head.status,
      headers: keptHeaders(head),
      isEventStream,
      marks: isEventStream ? marks : [],
      usage: usageOf(answer, request),
      check: "",
      body,
    };
    void this.options.store.put(key.id, stored);
  }

  #save(request: GatewayRequest, model: string, result: "hit" | "joined", usage: TokenCounts | undefined): void {
    request.record.kept = { model, usage };
    this.#note(request, model, result, undefined, usage);
  }

  #note(request: GatewayRequest, model: string, result: CacheResult, reason?: Bypass, saved?: TokenCounts): void {
    const notes: Readonly<Record<CacheResult, string>> = {
      hit: "hit:exact",
      joined: "hit:joined",
      miss: "miss",
      stale: "stale",
      bypass: `bypass:${reason}`,
    };
    request.record.notes.set(CACHE_NOTE, notes[result]);
    this.#count(model, result, saved);
    this.options.onResult?.(model, result, saved);
  }

  #count(model: string, result: CacheResult, saved: TokenCounts | undefined): void {
    const known = this.#counts.get(model);
    const counts = known ?? {
      hit: 0,
      joined: 0,
      miss: 0,
      stale: 0,
      bypass: 0,
      savedPromptTokens: 0,
      savedOutputTokens: 0,
    };
    if (known === undefined) this.#counts.set(model, counts);
    counts[result]++;
    if (saved === undefined) return;
    counts.savedPromptTokens += saved.fresh + saved.cacheRead + saved.cacheWrite;
    counts.savedOutputTokens += saved.output;
  }
}

/**
 * no-store: the client's directive; version: the model's version is unknown; size: a large body; inexact: the fields
 * lose a part of the body.
 */
type Bypass = Ineligible | "no-store" | "version" | "size" | "inexact";

function notCached(got: string): MillraceError {
  return new MillraceError("not_cached", `expected a kept answer, as only-if-cached asks for, got ${got}`, {
    hint: "send the request without cache-control: only-if-cached",
  });
}

/** Marks an answer, unless a later policy has marked it as its own kept answer. */
class MarkingSink extends PassingSink {
  constructor(
    next: AnswerSink,
    private readonly headers: OutgoingHttpHeaders,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    const isKept = head.headers["x-millrace-cache-kind"] !== undefined;
    super.begin(isKept ? head : withHeaders(head, this.headers));
  }
}

function marked(sink: AnswerSink, headers: OutgoingHttpHeaders): AnswerSink {
  return new MarkingSink(sink, headers);
}

/** The sink of a request that shares another's run. */
function joined(sink: AnswerSink, { observer }: GatewayRequest): AnswerSink {
  const headers = { "x-millrace-cache": "hit", "x-millrace-cache-age": "0" };
  const told = new HeaderSink(sink, () => {
    observer.firstByte();
    return headers;
  });
  return new FreshIds(told);
}

function keptHeaders({ headers }: AnswerHead): OutgoingHttpHeaders {
  const kept: OutgoingHttpHeaders = {};
  for (const name of KEPT_HEADERS) if (headers[name] !== undefined) kept[name] = headers[name];
  return kept;
}

/** The usage that the upstream's last attempt reported, else the answer's own. */
export function usageOf(
  answer: Pick<RunAnswer, "body"> | undefined,
  { record }: GatewayRequest,
): TokenCounts | undefined {
  const reported = record.attempts.findLast(({ usage }) => usage !== undefined)?.usage;
  if (reported !== undefined || answer === undefined) return reported;
  const reader = new UsageReader();
  reader.push(answer.body);
  const { inputTokens, outputTokens } = reader.read() ?? {};
  if (inputTokens === undefined) return undefined;
  return { fresh: inputTokens, cacheRead: 0, cacheWrite: 0, output: outputTokens ?? 0, reasoning: 0 };
}
