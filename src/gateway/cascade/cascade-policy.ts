/**
 * Lets a small model answer first. A judge keeps the answer, or the large model gets the request; the client's first
 * byte comes after the decision. A random share of requests goes to both models, which shows the cascade's loss.
 */
import { MillraceError } from "../../core/errors.js";
import {
  JUDGE_SAMPLING,
  judgeMessage,
  judgementOf,
  type Preference,
  preferenceOf,
  REPLY_FORMAT,
  shownPart,
} from "../../text/judge/preference.js";
import { type AnswerSink, HeaderSink, type WholeAnswer } from "../answer.js";
import { routeOf } from "../api/routes.js";
import { type AnswerRules, ineligible } from "../cache/eligibility.js";
import { Cancellation } from "../cancellation.js";
import { BoundedSink, CopyingSink } from "../held-sinks.js";
import { DEAF_REQUEST } from "../observer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withBody, withModel } from "../request.js";
import { lastText } from "../routes/request-facts.js";
import { MODEL_HEADER, withoutFirstByte } from "../routes/route-policy.js";
import { type AnswerSignals, signalsOf } from "./answer-signals.js";
import { type ChatForm, chatFormOf } from "./chat-form.js";
import { isSame } from "./compare.js";
import type { Guard } from "./guard.js";
import { type JudgeTerms, judge, needsLogprobs, type Verdict } from "./judges.js";
import { logprobFields, withoutExtraLogprobs } from "./logprob-fields.js";

interface Agreement {
  /** Further answers of the small model. */
  readonly samples: number;
  /** Least share of them that must equal the answer. */
  readonly share: number;
  readonly temperature: number;
}

export interface Cascade {
  readonly name: string;
  readonly small: string;
  readonly large: string;
  readonly judge: JudgeTerms;
  readonly agreement: Agreement | undefined;
  readonly audit: {
    /** Share of requests that go to both models. */
    readonly share: number;
    /** Model that compares both answers; undefined: equal answers are as good, others are worse. */
    readonly judgeModel: string | undefined;
  };
  readonly guard: Guard;
}

/**
 * kept, escalated: the judge's decision; audited: both models answered; closed: the guard has closed the cascade;
 * bypassed: the request cannot be judged.
 */
export type Decision = "kept" | "escalated" | "audited" | "closed" | "bypassed";

interface CascadeOptions {
  /** Cascades by each of their names. Read for every request. */
  readonly cascades: () => ReadonlyMap<string, Cascade>;
  /** A random number in [0, 1). */
  readonly random: () => number;
  readonly onDecision?: (cascade: string, decision: Decision) => void;
  readonly onClosed?: (cascade: Cascade) => void;
  /** Called when an audit fails for another reason than a model's error. */
  readonly onError?: (cascade: string, thrown: unknown) => void;
}

/** Header with the fate of the small model's answer. */
const CASCADE_HEADER = "x-millrace-cascade";
/** A small model's answer is held up to this size. */
const MAX_HELD_BYTES = 16 * 1024 * 1024;
/** Paths whose answers can be read. */
const JUDGED_PATHS: readonly string[] = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"];
/** Paths on which a provider may keep state or run tools. */
const STATEFUL_PATHS: readonly string[] = ["/v1/messages", "/v1/responses"];

export class CascadePolicy implements Policy {
  readonly name = "cascade";
  #isClosed = false;

  constructor(private readonly options: CascadeOptions) {}

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const cascade = this.options.cascades().get(request.model);
    return cascade === undefined ? next(request, sink) : this.#run(cascade, request, sink, next);
  }

  /** Audits that still run are not counted: the upstreams and the database are about to close. */
  async close(): Promise<void> {
    this.#isClosed = true;
  }

  async #run(cascade: Cascade, request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { onDecision } = this.options;
    const toLarge = (decision: Decision, why: string): Promise<Ending> => {
      onDecision?.(cascade.name, decision);
      request.record.notes.set(this.name, `${cascade.name}: ${decision} (${why})`);
      return next(withModel(request, cascade.large), markedSink(sink, cascade.large, decision));
    };
    if (!isJudgeable(request)) return toLarge("bypassed", "not of a kind that can be judged");
    if (!cascade.guard.isOpen) return toLarge("closed", "the small model lost too much");
    const form = needsForm(cascade) ? chatFormOf(request) : undefined;
    if (needsLogprobs(cascade.judge) && form === undefined) return toLarge("bypassed", "no chat can say it");
    if (this.options.random() < cascade.audit.share) return this.#audit(cascade, request, form, sink, next);
    const small = await askSmall(cascade, request, form, next);
    if (request.cancellation.isCancelled) return { kind: "cancelled" };
    const verdict = await this.#judge(cascade, request, form, small, next);
    if (request.cancellation.isCancelled) return { kind: "cancelled" };
    if (!verdict.isKept) return toLarge("escalated", verdict.why ?? "");
    onDecision?.(cascade.name, "kept");
    request.record.notes.set(this.name, `${cascade.name}: kept (${verdict.score.toFixed(3)})`);
    return replay(small!, request, markedSink(sink, cascade.small, "kept"));
  }

  async #judge(
    cascade: Cascade,
    request: GatewayRequest,
    form: ChatForm | undefined,
    small: SmallAnswer | undefined,
    next: Handler,
  ): Promise<Verdict> {
    const verdict = judge(small?.signals, request, cascade.judge);
    const { agreement } = cascade;
    if (!verdict.isKept || agreement === undefined) return verdict;
    const text = small!.signals!.text;
    const { samples, temperature, share } = agreement;
    const asked = { ...request, ...form?.request };
    const others = await Promise.all(
      Array.from({ length: samples }, (_, index) => {
        // The seeds are part of the request, so that the same request is judged alike. Not every API has one.
        const fields = { temperature, ...(asked.route.takesSeed ? { seed: index + 1 } : {}) };
        return askHidden(withBody(withModel(asked, cascade.small), { ...fields, model: cascade.small }), next);
      }),
    );
    const numSame = others.filter((other) => {
      const signals = other === undefined ? undefined : signalsOf(other, asked.path);
      return signals !== undefined && isSame(signals.text, text);
    }).length;
    return numSame >= share * samples ? verdict : { ...verdict, isKept: false, why: "samples disagree" };
  }

  /** The client gets the large model's answer as it comes; the small model's is only compared with it. */
  async #audit(
    cascade: Cascade,
    request: GatewayRequest,
    form: ChatForm | undefined,
    sink: AnswerSink,
    next: Handler,
  ): Promise<Ending> {
    this.options.onDecision?.(cascade.name, "audited");
    request.record.notes.set(this.name, `${cascade.name}: audited`);
    const cancellation = new Cancellation();
    // A client may leave with its whole answer while the comparison goes on.
    const leave = request.cancellation.onCancel(() => cancellation.cancel());
    const copy = new CopyingSink(markedSink(sink, cascade.large, "audited"), MAX_HELD_BYTES, leave);
    const side = { ...request, cancellation, observer: DEAF_REQUEST };
    const small = askSmall(cascade, side, form, next).catch((thrown: unknown) => {
      this.options.onError?.(cascade.name, thrown);
      return undefined;
    });
    try {
      const ending = await next(withModel(request, cascade.large), copy);
      const large = copy.whole();
      // Without the large model's answer there is nothing to compare with.
      if (ending.kind === "answered" && ending.status === 200 && large !== undefined) {
        await this.#compare(cascade, side, form, await small, large, next).catch((thrown: unknown) =>
          this.options.onError?.(cascade.name, thrown),
        );
      }
      return ending;
    } finally {
      leave();
      cancellation.cancel();
      // The small model's attempt is noted in this request's record, which must not end before it.
      await small;
    }
  }

  async #compare(
    cascade: Cascade,
    request: GatewayRequest,
    form: ChatForm | undefined,
    small: SmallAnswer | undefined,
    large: WholeAnswer,
    next: Handler,
  ): Promise<void> {
    const signals = signalsOf(large, request.path);
    if (signals === undefined) return;
    const verdict = await this.#judge(cascade, request, form, small, next);
    const isWorse = await this.#isWorse(cascade, request, small?.signals, signals, next);
    if (isWorse === undefined || request.cancellation.isCancelled || this.#isClosed) return;
    const sample = { requestId: request.id, score: verdict.score, isKept: verdict.isKept, isWorse: Number(isWorse) };
    if (cascade.guard.add(sample)) this.options.onClosed?.(cascade);
  }

  /** @returns undefined if the judge's model gives no verdict */
  async #isWorse(
    { audit: { judgeModel } }: Cascade,
    request: GatewayRequest,
    small: AnswerSignals | undefined,
    large: AnswerSignals,
    next: Handler,
  ): Promise<boolean | undefined> {
    if (small === undefined) return true;
    if (isSame(small.text, large.text)) return false;
    if (judgeModel === undefined) return true;
    const question = lastText(request.body);
    const ask = (first: string, second: string): Promise<Preference | undefined> =>
      askJudge(request, judgeModel, [question, first, second], next);
    const judgement = judgementOf(...(await Promise.all([ask(small.text, large.text), ask(large.text, small.text)])));
    return judgement === "none" ? undefined : judgement === "lost";
  }
}

/** Requests for one answer, in text or with calls, that may be asked twice. */
function isJudgeable(request: GatewayRequest): boolean {
  const { path, body, route } = request;
  if (!route.isGeneration || !JUDGED_PATHS.includes(path)) return false;
  if (STATEFUL_PATHS.includes(path)) return ineligible(request, ASKED_TWICE, "") === undefined;
  const isOne = (value: unknown): boolean => value === undefined || value === null || value === 1;
  return isOne(body.n) && isOne(body.best_of) && !(Array.isArray(body.prompt) && typeof body.prompt[0] !== "number");
}

/** The rules by which a request changes nothing elsewhere, such as a conversation that its provider keeps. */
const ASKED_TWICE: AnswerRules = { isOwnEngine: false, assumesDeterministic: true, keepsSampled: true };

/** Whether the small model is asked for more than an answer: for log-probabilities, or for samples by a seed. */
const needsForm = ({ judge: terms, agreement }: Cascade): boolean => needsLogprobs(terms) || agreement !== undefined;

interface SmallAnswer {
  /** The answer in the client's form. */
  readonly answer: WholeAnswer;
  readonly signals: AnswerSignals | undefined;
}

/** @returns undefined if the small model gives no answer */
async function askSmall(
  { small, judge: terms }: Cascade,
  request: GatewayRequest,
  form: ChatForm | undefined,
  next: Handler,
): Promise<SmallAnswer | undefined> {
  const isScored = needsLogprobs(terms) && form !== undefined;
  if (!isScored) {
    const answer = await askHidden(withModel(request, small), next);
    return answer && { answer, signals: signalsOf(answer, request.path) };
  }
  const asked = { ...request, ...form.request };
  const answer = await askHidden(withBody(withModel(asked, small), { ...logprobFields(asked), model: small }), next);
  const shown = answer && form.shown(withoutExtraLogprobs(answer, asked));
  return shown && { answer: shown, signals: signalsOf(answer!) };
}

/** Asks for an answer that the client does not see. @returns undefined for an error of any kind */
async function askHidden(request: GatewayRequest, next: Handler): Promise<WholeAnswer | undefined> {
  const answer = await askAside(request, next);
  return answer?.head.status === 200 ? answer : undefined;
}

/** Like askHidden, but a model's error is returned too. @returns undefined if no model answers */
async function askAside(request: GatewayRequest, next: Handler): Promise<WholeAnswer | undefined> {
  const cancellation = request.cancellation.child();
  const sink = new BoundedSink(MAX_HELD_BYTES, cancellation);
  try {
    const ending = await next({ ...request, cancellation, observer: hidden(request) }, sink);
    const answer = sink.answer();
    return ending.kind === "answered" ? answer : undefined;
  } catch (thrown) {
    if (thrown instanceof MillraceError) return undefined;
    throw thrown;
  } finally {
    cancellation.cancel();
  }
}

/** The observer of a part of the request: its first byte and its tokens are not the client's. */
function hidden({ observer }: GatewayRequest): GatewayRequest["observer"] {
  const { used: _, ...rest } = withoutFirstByte(observer);
  return rest;
}

/** @param texts the request, and the answers in the order in which the judge sees them */
async function askJudge(
  request: GatewayRequest,
  model: string,
  texts: readonly [question: string, first: string, second: string],
  next: Handler,
): Promise<Preference | undefined> {
  const [question, first, second] = texts.map(shownPart) as [string, string, string];
  const messages = [judgeMessage([{ role: "user", content: question }], first, second)];
  const body = { model, messages, ...JUDGE_SAMPLING };
  const path = "/v1/chat/completions";
  const route = routeOf(path)!;
  const plain = {
    ...request,
    body: {},
    bytes: Buffer.from("{}"),
    path,
    url: path,
    route,
    isStream: false,
    observer: DEAF_REQUEST,
  };
  // Some servers refuse a response format; the question alone asks for the same reply.
  const formed = await askAside(withBody(plain, { ...body, response_format: REPLY_FORMAT }), next);
  const isRefused = formed !== undefined && [400, 422].includes(formed.head.status);
  const answer = isRefused ? await askAside(withBody(plain, body), next) : formed;
  return answer?.head.status === 200 ? preferenceOf(signalsOf(answer)?.text) : undefined;
}

function markedSink(sink: AnswerSink, model: string, decision: Decision): AnswerSink {
  return new HeaderSink(sink, () => ({ [MODEL_HEADER]: model, [CASCADE_HEADER]: decision }));
}

function replay(
  { answer: { head, body }, signals }: SmallAnswer,
  { observer }: GatewayRequest,
  sink: AnswerSink,
): Ending {
  observer.firstByte();
  observer.used?.({ inputTokens: signals?.numPromptTokens, outputTokens: signals?.numOutputTokens });
  sink.begin(head);
  sink.end(body);
  return { kind: "answered", status: head.status };
}
