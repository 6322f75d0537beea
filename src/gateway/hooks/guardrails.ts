/**
 * Guardrails as a policy: patterns and checkers search clients' requests and answers, which are then refused, redacted
 * or flagged.
 */
import { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../answer.js";
import { HeaderSink } from "../answer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withBody } from "../request.js";
import { AnswerGuard, checkTexts, FLAGS_HEADER } from "./answer-guard.js";
import { Findings, type Guard, guardTexts } from "./guard.js";
import type { Stage } from "./stage.js";
import { FoundTexts, hasTokenIds, mapRequestTexts } from "./texts.js";

interface GuardrailsOptions {
  /** Guardrails in the order of their search. */
  readonly guards: readonly Guard[];
  /** The model that a client's name stands for. */
  readonly modelOf: (name: string) => string;
  /** Gets the findings, without the texts. */
  readonly onFindings: (request: GatewayRequest, findings: string) => void;
}

export class Guardrails implements Policy {
  readonly name = "hooks";
  /**
   * For the answer to a request that passed before: the request is not refused any more, and no checker is asked again.
   * Patterns redact it once more, for recorders.
   */
  readonly booking: Policy = {
    name: this.name,
    handle: (request, sink, next) => {
      const guards = hasTokenIds(request.body) ? [] : this.#guardsOf(request, "request");
      const redacting = guards.filter(({ action }) => action === "redact");
      return this.#handle(
        request,
        sink,
        next,
        redacting.map((guard) => ({ ...guard, checker: undefined })),
      );
    },
  };

  constructor(private readonly options: GuardrailsOptions) {}

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    return this.#handle(request, sink, next, this.#guardsOf(request, "request"));
  }

  async #handle(request: GatewayRequest, sink: AnswerSink, next: Handler, before: readonly Guard[]): Promise<Ending> {
    const after = this.#guardsOf(request, "answer");
    if (before.length === 0 && after.length === 0) return await next(request, sink);
    const findings = new Findings();
    try {
      const clean = before.length === 0 ? request : await guardRequest(request, before, findings);
      if (request.cancellation.isCancelled) return { kind: "cancelled" };
      if (after.length > 0) return await this.#guardAnswer(clean, sink, next, after, findings);
      const flags = () => (findings.isEmpty ? {} : { [FLAGS_HEADER]: findings.toString().slice(0, 1000) });
      return await next(clean, findings.isEmpty ? sink : new HeaderSink(sink, flags));
    } finally {
      if (!findings.isEmpty) {
        request.record.notes.set(this.name, findings.toString());
        this.options.onFindings(request, findings.toString());
      }
    }
  }

  #guardsOf({ model, path }: GatewayRequest, stage: Stage): readonly Guard[] {
    const own = this.options.modelOf(model);
    return this.options.guards.filter(
      ({ stages, appliesTo }) => stages.has(stage) && (appliesTo(model, path) || appliesTo(own, path)),
    );
  }

  async #guardAnswer(
    request: GatewayRequest,
    sink: AnswerSink,
    next: Handler,
    guards: readonly Guard[],
    findings: Findings,
  ): Promise<Ending> {
    const cancellation = request.cancellation.child();
    const guard = new AnswerGuard(sink, request, guards, findings, () => cancellation.cancel());
    const ending = await next({ ...request, cancellation }, guard);
    await guard.settled();
    const { error } = guard;
    if (error === undefined || request.cancellation.isCancelled) return ending;
    if (!guard.hasBegun) throw error;
    return { kind: "broken", status: 200, error };
  }
}

async function guardRequest(
  request: GatewayRequest,
  guards: readonly Guard[],
  findings: Findings,
): Promise<GatewayRequest> {
  const { body } = request;
  if (hasTokenIds(body) && guards.some(({ action }) => action !== "flag")) {
    throw new MillraceError("guardrail_refused", "expected a prompt as text, got token ids", {
      hint: "a guardrail of the gateway must be able to read it",
    });
  }
  const found = new FoundTexts();
  mapRequestTexts(body, found.visit);
  const clean = await guardTexts(guards, "request", found, findings);
  const checkers = guards.filter(({ checker }) => checker !== undefined);
  if (checkers.length > 0) await checkTexts(checkers, "request", clean, request, findings);
  let at = 0;
  const changed = mapRequestTexts(body, () => clean[at++]!);
  return changed === body ? request : withBody(request, changed);
}
