/**
 * Lines of batches that a provider's batch endpoint answers, in a fleet: turns them into the provider's requests before
 * they are handed over, and answers them from its results.
 */
import { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../../gateway/answer.js";
import type { HandedModels, PreparedLine, ProviderAnswer } from "../../gateway/batches/handed-models.js";
import type { LineSubmission } from "../../gateway/batches/run-line.js";
import { type Provider, providerRequest } from "../../gateway/dialects/provider.js";
import { type Ending, type Handler, pipeline } from "../../gateway/pipeline.js";
import type { BatchEndpoint } from "../../gateway/provider-batches/endpoint.js";
import { batchEndpointOf } from "../../gateway/provider-batches/endpoints.js";
import type { GatewayRequest } from "../../gateway/request.js";
import type { TieredPrice } from "../../gateway/usage/price.js";
import type { AttemptRecord, Rate } from "../../gateway/usage/record.js";
import type { FleetConfig } from "../config/schema.js";
import { AnswerCounts } from "../proxy/answer-counts.js";
import type { RunningProxy } from "../proxy/proxy.js";
import type { Upstream, UpstreamPool, UpstreamTarget } from "../upstream/upstream.js";
import type { HandedPolicies } from "./policies.js";

export interface HandedPrices {
  priceOf(model: string, rate: Rate): TieredPrice | undefined;
}

interface HandedLinesOptions {
  readonly config: () => FleetConfig;
  readonly pool: UpstreamPool;
  readonly prices: HandedPrices;
  /** Resolves a name to a model. */
  readonly nameOf: (name: string) => string;
  readonly proxy: () => RunningProxy;
  readonly policies: () => HandedPolicies | undefined;
}

interface Place {
  readonly upstream: Upstream;
  readonly target: UpstreamTarget;
  readonly provider: Provider;
}

/** For answers that report no usage. */
const BYTES_PER_TOKEN = 3;
const NOWHERE: AnswerSink = {
  begin: () => {},
  write: () => true,
  end: () => {},
  breakOff: () => {},
  onDrain: () => {},
};

export class HandedLines implements HandedModels {
  readonly pauses = { firstMs: 250, mostMs: 60_000, settleMs: 10_000 };
  readonly budget: HandedModels["budget"] = {
    reserve: (id, estimate) => this.#policies.limits.reserve(id, estimate),
    shrink: (id, amounts) => this.#policies.limits.shrink(id, amounts),
    release: (id, spent) => this.#policies.limits.release(id, spent),
  };

  constructor(private readonly options: HandedLinesOptions) {}

  isHanded(model: string): boolean {
    const own = this.options.nameOf(model);
    return this.options.config().models.find(({ name }) => name === own)?.provider.batchEndpoint === true;
  }

  endpointOf(model: string): BatchEndpoint | undefined {
    const place = this.#placeOf(this.options.nameOf(model));
    return place === undefined ? undefined : batchEndpointOf(place.provider, place.target.url);
  }

  async prepare(line: LineSubmission): Promise<PreparedLine> {
    let prepared: PreparedLine | undefined;
    const { limits, preparing } = this.#policies;
    const handle = pipeline(preparing, async (request) => {
      const { upstream, provider, target } = this.#certainPlaceOf(request.model);
      const model = target.modelName ?? request.model;
      const asked = providerRequest(provider, target.url, model, request, new Date());
      const path = `/v1${asked.path.slice(provider.basePath.length)}`;
      // The key does not go to the disk.
      const headers = Object.fromEntries(
        Object.entries(asked.headers).filter(([name]) => name.startsWith("anthropic-")),
      );
      const price = this.options.prices.priceOf(upstream.model, request.record.rate);
      prepared = { path, headers, body: asked.body, price, estimate: limits.estimateOf(request) };
      // No answer exists yet, so this one reaches nobody.
      return { kind: "cancelled" };
    });
    await this.#submit(line, handle, NOWHERE);
    if (prepared === undefined) throw new MillraceError("internal_error", "expected a line for its provider, got none");
    return prepared;
  }

  async book(line: LineSubmission, answer: ProviderAnswer | MillraceError, sink: AnswerSink): Promise<Ending> {
    const { booking, booked } = this.#policies;
    const handle = pipeline(booking, async (request, inner) => {
      if (answer instanceof MillraceError) throw answer;
      const place = this.#certainPlaceOf(request.model);
      answer.isTaken = true;
      return this.#answered(place, request, answer, inner);
    });
    // The provider has answered, so the caller's present rights no longer matter.
    if (!(answer instanceof MillraceError)) line.record.agreedPrice = answer.price;
    const { tokenModels: _, allowsModel: __, ...caller } = line.caller;
    try {
      return await this.#submit({ ...line, caller }, handle, sink);
    } finally {
      await booked();
    }
  }

  #answered(
    { upstream, target, provider }: Place,
    request: GatewayRequest,
    { status, body }: ProviderAnswer,
    sink: AnswerSink,
  ): Ending {
    const { attempts, watcher } = request.record;
    const model = target.modelName ?? request.model;
    const { translation } = providerRequest(provider, target.url, model, request, new Date());
    const attempt: AttemptRecord = {
      instance: upstream.id,
      engine: upstream.engine,
      model: upstream.model,
      startMs: performance.now(),
      status,
    };
    attempts.push(attempt);
    watcher?.began(attempt);
    try {
      translation.begin(status, { "content-type": "application/json" });
      const bytes = Buffer.concat([translation.push(body), translation.end()]);
      const { failure } = translation;
      // The provider also charges for answers that cannot be translated.
      const counts = new AnswerCounts(true, failure === undefined ? translation : undefined);
      counts.reader?.push(failure === undefined ? bytes : body);
      attempt.firstByteMs = performance.now();
      watcher?.answering(attempt);
      const usage = status < 300 ? (counts.whole() ?? this.#estimate(request, counts)) : undefined;
      if (usage !== undefined) attempt.usage = usage;
      if (failure !== undefined) throw failure;
      attempt.outcome = "answered";
      watcher?.completing(attempt);
      sink.begin(translation.head());
      sink.end(bytes);
      return { kind: "answered", status: translation.head().status };
    } finally {
      attempt.outcome ??= "refused";
      attempt.endMs = performance.now();
      watcher?.ended(attempt);
    }
  }

  #estimate({ bytes, route }: GatewayRequest, counts: AnswerCounts) {
    return counts.estimate(Math.ceil(bytes.length / BYTES_PER_TOKEN), route.isGeneration);
  }

  #submit(line: LineSubmission, handle: Handler, sink: AnswerSink): Promise<Ending> {
    line.record.isHanded = true;
    return this.options.proxy().submit({ ...line, handle }, sink);
  }

  get #policies(): HandedPolicies {
    const policies = this.options.policies();
    if (policies === undefined) throw new MillraceError("internal_error", "expected a started gateway, got none");
    return policies;
  }

  #certainPlaceOf(model: string): Place {
    const place = this.#placeOf(this.options.nameOf(model));
    if (place !== undefined) return place;
    throw new MillraceError("model_not_found", `expected a paid API behind ${model.slice(0, 80)}, got none`);
  }

  /** All files of a model go to its first account, since only that account knows its batches. */
  #placeOf(model: string): Place | undefined {
    const [upstream] = this.options.pool.upstreams(model);
    const target = upstream?.target;
    if (upstream === undefined || target?.provider === undefined) return undefined;
    return { upstream, target, provider: target.provider };
  }
}
