/**
 * The semantic cache as a policy. In shadow mode a request passes as if there were no cache, and a possible hit is
 * judged afterwards by the generated answer. When the judged hits have earned it and the operator wants it, hits are
 * served, and a share of them is generated as well, for ever.
 */
import type { AnswerSink } from "../answer.js";
import type { CacheScope } from "../cache/answer-key.js";
import { type Directives, directivesOf } from "../cache/directives.js";
import { CACHE_NOTE, usageOf } from "../cache/exact-cache.js";
import { FreshIds } from "../cache/fresh-ids.js";
import { isOwnAnswer } from "../cache/own-answer.js";
import { replay } from "../cache/replay.js";
import { type CopiedAnswer, CopyingSink } from "../held-sinks.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import { answerText } from "./answer-text.js";
import type { SemanticStatus } from "./counters.js";
import type { Hit, Lookup, ModelCache } from "./model-cache.js";
import type { Entry } from "./store/entries.js";
import { type Subject, subjectOf } from "./subject.js";

/** The facts about a model that its cache needs. */
export interface CachedModel {
  readonly cache: ModelCache;
  readonly model: string;
  /** Version of the model's weights, engine and settings. */
  readonly version: string;
  /** The model of the vectors, and its version. */
  readonly embedder: string;
}

interface SemanticCacheOptions {
  /** The cache of the model that a client's name stands for; undefined: none. */
  readonly cacheOf: (name: string) => CachedModel | undefined;
  readonly all: () => readonly ModelCache[];
  readonly scopeOf: (request: GatewayRequest) => CacheScope;
  readonly onFailure: (thrown: unknown, model: string) => void;
  /** A random number from 0 to 1. */
  readonly random?: () => number;
  readonly now?: () => number;
  readonly close?: () => Promise<void>;
}

const CACHE_HEADER = "x-millrace-cache";
const KIND_HEADER = "x-millrace-cache-kind";
const SIMILARITY_HEADER = "x-millrace-cache-similarity";
const ID_HEADER = "x-millrace-cache-id";
/** The tenant of the cache's own requests, which bypass the cache. */
export const OWN_TENANT = "(semantic-cache)";

/** Answers that are learned from at once; further ones are ignored, whatever their text. */
const MAX_LEARNING = 64;

export class SemanticCache implements Policy {
  readonly name = "semantic-cache";
  readonly #random: () => number;
  readonly #now: () => number;
  readonly #learning = new Set<Promise<void>>();
  #isClosed = false;

  constructor(private readonly options: SemanticCacheOptions) {
    this.#random = options.random ?? Math.random;
    this.#now = options.now ?? Date.now;
  }

  async handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const cached = request.caller.tenant === OWN_TENANT ? undefined : this.options.cacheOf(request.model);
    if (cached === undefined) return next(request, sink);
    const directives = directivesOf(request.headers);
    const subject = directives.noStore ? undefined : this.#subjectOf(request, cached);
    if (subject === undefined) return next(request, sink);
    const { cache } = cached;
    let lookup: Lookup | undefined;
    let isAudit = false;
    if (cache.isServing && !directives.noCache) {
      lookup = await this.#lookupInTime(cache, subject, request);
      if (request.cancellation.isCancelled) return { kind: "cancelled" };
      const hit = lookup?.hit;
      if (hit !== undefined && this.#isFresh(hit, directives) && cache.allows(subject, hit)) {
        isAudit = this.#random() < cache.settings.auditRate;
        if (!isAudit) return this.#serve(request, sink, cache, subject, hit);
        cache.counts.audited++;
      }
    }
    return this.#generate(request, sink, next, { cached, subject, lookup, isAudit });
  }

  status(): readonly SemanticStatus[] {
    return this.options.all().map((cache) => cache.status());
  }

  /** @returns whether the tenant has such an answer */
  async reportWrong(id: string, tenant: string): Promise<boolean> {
    for (const cache of this.options.all()) if (await cache.reportWrong(id, tenant)) return true;
    return false;
  }

  /** Forgets the trust that a model's hits have earned or lost. @returns whether the model has a cache */
  async reset(model: string): Promise<boolean> {
    const cache = this.options.all().find(({ parts }) => parts.model === model);
    await cache?.reset();
    return cache !== undefined;
  }

  /** Resolves when running judgements are stored. */
  async settled(): Promise<void> {
    while (this.#learning.size > 0) await Promise.all(this.#learning);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { parts } of this.options.all()) parts.entries.close();
    await this.options.close?.();
  }

  #subjectOf(request: GatewayRequest, { cache, model, version, embedder }: CachedModel): Subject | undefined {
    const { isMultiTurn } = cache.settings;
    return subjectOf(request, { scope: this.options.scopeOf(request), model, version, embedder, isMultiTurn });
  }

  async #lookupInTime(cache: ModelCache, subject: Subject, request: GatewayRequest): Promise<Lookup | undefined> {
    // An empty namespace has no candidates, so the request does not wait for its vector, which is computed after the
    // answer.
    if (!cache.parts.entries.has(subject.namespace)) return undefined;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), cache.settings.embedTimeoutMs);
    });
    try {
      return await Promise.race([cache.lookup(subject, request.caller.tenant), late]);
    } catch (thrown) {
      this.#fail(cache, thrown);
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  #isFresh({ entry }: Hit, { maxAgeSeconds }: Directives): boolean {
    return maxAgeSeconds === undefined || this.#now() - entry.answer.createdMs <= maxAgeSeconds * 1000;
  }

  #serve(request: GatewayRequest, sink: AnswerSink, cache: ModelCache, subject: Subject, hit: Hit): Promise<Ending> {
    cache.noteServed(subject, hit);
    const { model, usage } = hit.entry.answer;
    request.record.kept = { model, usage };
    request.record.notes.set(CACHE_NOTE, "hit:semantic");
    request.observer.firstByte();
    const headers = {
      [CACHE_HEADER]: "hit",
      [KIND_HEADER]: "semantic",
      [SIMILARITY_HEADER]: hit.similarity.toFixed(4),
      [ID_HEADER]: hit.id,
      age: String(Math.max(0, Math.floor((this.#now() - hit.entry.answer.createdMs) / 1000))),
    };
    return replay(hit.entry.answer, headers, new FreshIds(sink), request.cancellation, "none");
  }

  async #generate(request: GatewayRequest, sink: AnswerSink, next: Handler, about: Generation): Promise<Ending> {
    const { cache } = about.cached;
    if (about.isAudit) request.record.notes.set(CACHE_NOTE, "audit:semantic");
    const copy = new CopyingSink(sink, cache.settings.maxAnswerBytes);
    const ending = await next(request, copy);
    const kept = ending.kind === "answered" && ending.status === 200 ? copy.whole() : undefined;
    if (kept === undefined || this.#isClosed || this.#learning.size >= MAX_LEARNING) return ending;
    const learning = this.#learn(request, about, kept)
      .catch((thrown) => this.#fail(cache, thrown))
      .finally(() => this.#learning.delete(learning));
    this.#learning.add(learning);
    return ending;
  }

  async #learn(
    request: GatewayRequest,
    { cached, subject, lookup, isAudit }: Generation,
    kept: CopiedAnswer,
  ): Promise<void> {
    const { cache, model } = cached;
    const { head, body, marks } = kept;
    const text = answerText(request.path, head.isEventStream, body);
    if (
      text === undefined ||
      !isOwnAnswer(request, cached, this.options.cacheOf) ||
      head.headers["content-encoding"] !== undefined
    )
      return;
    const { tenant } = request.caller;
    const nowMs = this.#now();
    const contentType = head.headers["content-type"];
    const fresh: Entry = {
      question: subject.question.text,
      text,
      answer: {
        model,
        tenant,
        tags: [],
        createdMs: nowMs,
        expiresMs: nowMs + cache.settings.ttlMs,
        status: head.status,
        headers: contentType === undefined ? {} : { "content-type": contentType },
        isEventStream: head.isEventStream,
        marks,
        usage: usageOf(kept, request),
        check: "",
        body,
      },
    };
    const found = lookup ?? (await cache.lookup(subject, tenant));
    if (!this.#isClosed) await cache.learn(subject, fresh, found, isAudit ? "audit" : "shadow");
  }

  #fail(cache: ModelCache, thrown: unknown): void {
    cache.counts.failures++;
    this.options.onFailure(thrown, cache.parts.model);
  }
}

interface Generation {
  readonly cached: CachedModel;
  readonly subject: Subject;
  readonly lookup: Lookup | undefined;
  readonly isAudit: boolean;
}
