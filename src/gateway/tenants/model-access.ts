/** Refuses requests for models that their caller may not use. Runs before all policies that answer, route or charge. */
import { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../answer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { Caller, GatewayRequest } from "../request.js";

/**
 * Whether a caller may use a model: its name or an alias must be allowed. @param modelOf the model that a name stands
 * for
 */
export function mayUse({ allowsModel }: Caller, model: string, modelOf: (name: string) => string): boolean {
  return allowsModel === undefined || allowsModel(model) || allowsModel(modelOf(model));
}

/** Throws model_not_allowed. */
export function assertMayUse(caller: Caller, model: string, modelOf: (name: string) => string): void {
  if (mayUse(caller, model, modelOf)) return;
  const shown = JSON.stringify(model.slice(0, 80));
  throw new MillraceError("model_not_allowed", `expected a model that the key may use, got ${shown}`, {
    param: "model",
    hint: "/v1/models lists those of the key",
  });
}

export class ModelAccess implements Policy {
  readonly name = "model-access";

  constructor(private readonly modelOf: (name: string) => string) {}

  async handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    assertMayUse(request.caller, request.model, this.modelOf);
    return await next(request, sink);
  }
}
