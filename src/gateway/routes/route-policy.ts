/**
 * Resolves the virtual names of models: rules choose a target. After an error of a class with fallbacks, another model
 * gets the client's own request, as long as the client has no part of an answer.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { type AnswerHead, type AnswerSink, HeaderSink } from "../answer.js";
import type { RequestObserver } from "../observer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withModel } from "../request.js";
import { sessionOf } from "../session.js";
import { classOfAnswer, classOfError, type ErrorClass } from "./error-class.js";
import { HoldingSink } from "./held-answer.js";
import { RequestFacts } from "./request-facts.js";
import { type ModelRoute, type RouteRule, ruleFor } from "./route-table.js";
import { choiceOf, SmoothRoundRobin, type Weighted } from "./weighted-choice.js";

/** Header with the name of the model that has answered. */
export const MODEL_HEADER = "x-millrace-model";
/** Header with the models that were asked, and how each failed. */
const ROUTE_HEADER = "x-millrace-route";

interface RouteOptions {
  /** Name in the ledger's notes (default: route). */
  readonly name?: string;
  /** Routes by each of their names. Read for every request, so that a reload counts at once. */
  readonly routes: () => ReadonlyMap<string, ModelRoute>;
  /** Whether a target resolves further, and then itself names the model that answers. */
  readonly isNested?: (model: string) => boolean;
  /** Header that names the session, in lower case. */
  readonly sessionHeader: () => string;
  /** Counts a request that went to a model of a route. */
  readonly onRouted?: (route: string, model: string) => void;
  /** Counts an error after which another model gets the request. */
  readonly onFallback?: (route: string, from: string, errorClass: ErrorClass) => void;
}

/** Matches an answer that a provider's filter has cut. */
const FILTERED = /"(?:finish_reason|finishReason)":\s*"(?:content_filter|SAFETY)"|"stop_reason":\s*"refusal"/;

interface Failure {
  readonly model: string;
  readonly errorClass: ErrorClass | undefined;
  /** Text for the chain that the answer's header shows. */
  readonly shown: string;
  /** Set if the model gave no answer. */
  readonly error: MillraceError | undefined;
}

type Tried = { readonly ending: Ending } | { readonly failure: Failure; readonly sink: HoldingSink };

export class RoutePolicy implements Policy {
  readonly name: string;
  /** A round robin for each rule with several targets, for requests without a session. */
  readonly #turns = new WeakMap<RouteRule, SmoothRoundRobin>();

  constructor(private readonly options: RouteOptions) {
    this.name = options.name ?? "route";
  }

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const route = this.options.routes().get(request.model);
    return route === undefined ? next(request, sink) : this.#run(route, request, sink, next);
  }

  async #run(route: ModelRoute, request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const failures: Failure[] = [];
    const asked = new Set<string>();
    let model: string | undefined = this.#targetOf(route, request);
    for (;;) {
      asked.add(model);
      this.options.onRouted?.(route.name, model);
      request.record.notes.set(this.name, noteOf(route.name, failures, model));
      const tried = await this.#try(route, withModel(request, model), sink, next, [...failures]);
      if ("ending" in tried) return tried.ending;
      const { failure } = tried;
      failures.push(failure);
      const isOver = request.cancellation.isCancelled || asked.size >= route.maxAttempts;
      model = isOver ? undefined : nextModel(route, failure.errorClass, asked);
      if (model === undefined) return giveUp(route, failures, tried.sink);
      this.options.onFallback?.(route.name, failure.model, failure.errorClass!);
    }
  }

  #targetOf(route: ModelRoute, request: GatewayRequest): string {
    const rule = ruleFor(route, new RequestFacts(request));
    if (rule === undefined) {
      throw new MillraceError("model_not_found", `expected a rule of ${route.name} for this request, got none`, {
        param: "model",
        hint: "add a rule without `when` as the last one",
      });
    }
    return this.#choose(route, rule, request).model;
  }

  #choose(route: ModelRoute, rule: RouteRule, request: GatewayRequest): Weighted {
    if (rule.to.length === 1) return rule.to[0]!;
    const { headers, body, caller } = request;
    const session = sessionOf(headers, this.options.sessionHeader(), body);
    if (session !== undefined) {
      return choiceOf(`${route.name}\n${route.rules.indexOf(rule)}\n${caller.tenant}\n${session}`, rule.to);
    }
    let turns = this.#turns.get(rule);
    if (turns === undefined) {
      turns = new SmoothRoundRobin();
      this.#turns.set(rule, turns);
    }
    return turns.next(rule.to);
  }

  async #try(
    route: ModelRoute,
    request: GatewayRequest,
    sink: AnswerSink,
    next: Handler,
    before: readonly Failure[],
  ): Promise<Tried> {
    const { model } = request;
    const headers = (): OutgoingHttpHeaders => ({
      ...(this.options.isNested?.(model) === true ? {} : { [MODEL_HEADER]: model }),
      ...(before.length === 0 ? {} : { [ROUTE_HEADER]: noteOf(route.name, before, model) }),
    });
    const { observer } = request;
    const filters = route.fallback["content-filter"] !== undefined;
    const holds = (head: AnswerHead): boolean => head.status >= 400 || (filters && !head.isEventStream);
    const holding = new HoldingSink(new HeaderSink(sink, headers), holds, () => observer.firstByte());
    const fail = (errorClass: ErrorClass | undefined, why: string, error?: MillraceError): Tried => ({
      failure: { model, errorClass, shown: `${model} ${errorClass ?? "error"} (${why})`, error },
      sink: holding,
    });
    let ending: Ending;
    try {
      ending = await next({ ...request, observer: withoutFirstByte(observer) }, holding);
    } catch (thrown) {
      const error = toMillraceError(thrown);
      return fail(classOfError(error), error.code, error);
    }
    const { held } = holding;
    if (held === undefined || ending.kind === "cancelled") return { ending };
    const { status } = held.head;
    if (held.error !== undefined) return fail("unavailable", held.error.code);
    if (status >= 400) return fail(classOfAnswer(status, held.body), String(status));
    if (FILTERED.test(held.body.toString("utf8"))) return fail("content-filter", "filtered");
    holding.release();
    return { ending };
  }
}

/** The first fallback of the class that was not asked yet. */
function nextModel(
  { fallback }: ModelRoute,
  errorClass: ErrorClass | undefined,
  asked: ReadonlySet<string>,
): string | undefined {
  return errorClass === undefined ? undefined : fallback[errorClass]?.find((model) => !asked.has(model));
}

/** Gives the client the last error, with the chain that led to it. */
function giveUp({ name }: ModelRoute, failures: readonly Failure[], sink: HoldingSink): Ending {
  const { error } = failures.at(-1)!;
  if (error === undefined) {
    const { head, error: broken } = sink.held!;
    sink.release();
    const { status } = head;
    return broken === undefined ? { kind: "answered", status } : { kind: "broken", status, error: broken };
  }
  if (failures.length === 1) throw error;
  const chain = failures.map(({ shown }) => shown).join(", then ");
  const { code, hint, param, retryAfterSeconds, headers } = error;
  throw new MillraceError(code, `${error.message} (${name}: ${chain})`, {
    cause: error,
    ...(hint === undefined ? {} : { hint }),
    ...(param === undefined ? {} : { param }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(headers === undefined ? {} : { headers }),
  });
}

const noteOf = (route: string, failures: readonly Failure[], model: string): string =>
  `${route}: ${[...failures.map(({ shown }) => shown), model].join(", ")}`;

/** The observer without the first byte, which a held answer has before the client gets it. */
export function withoutFirstByte(observer: RequestObserver): RequestObserver {
  return {
    traceparent: observer.traceparent,
    passed: () => observer.passed?.(),
    routed: (id, matched) => observer.routed(id, matched),
    retried: (id, reason) => observer.retried(id, reason),
    hedged: (id) => observer.hedged?.(id),
    firstByte() {},
    ...(observer.used === undefined ? {} : { used: (usage) => observer.used?.(usage) }),
    ended: (outcome, status, code) => observer.ended(outcome, status, code),
  };
}
