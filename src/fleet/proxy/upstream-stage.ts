/** The last stage of the pipeline: sends a request to an instance of its model. */
import type { AnswerSink } from "../../gateway/answer.js";
import type { Ending, Handler } from "../../gateway/pipeline.js";
import type { GatewayRequest } from "../../gateway/request.js";
import type { Sendable, UpstreamContext } from "./arrival.js";
import { Delivery } from "./delivery.js";
import { assertApart } from "./isolation.js";
import { modelOf, priorityOf, routedRequest } from "./request-terms.js";

export function upstreamStage(context: UpstreamContext): Handler {
  return async (request: GatewayRequest, sink: AnswerSink): Promise<Ending> => {
    request.observer.passed?.();
    const delivery = new Delivery(context, await sendable(context, request), sink);
    const endWatch = request.cancellation.onCancel((error) => delivery.abandon(error));
    try {
      const { result, instanceId } = await delivery.run();
      if (result.kind === "broken" && instanceId !== undefined) void context.options.pool.reportFailure(instanceId);
      return result;
    } finally {
      endWatch();
    }
  };
}

async function sendable({ options, keySourceOf }: UpstreamContext, request: GatewayRequest): Promise<Sendable> {
  const { caller, body, bytes, headers, route, path, cancellation } = request;
  const { tenant } = caller;
  // A policy may have chosen another model than the body names, and a reload may have removed it since.
  const model = modelOf({ model: request.model }, options.pool.models(), options.modelOf, options.canaries?.());
  /**
   * The cache scope; "": everything may be shared. Throws if the engine cannot keep tenants apart. Called before the
   * request waits and again when it is sent.
   */
  const cacheScope = (): string => {
    const { cacheScope: own = "" } = caller;
    if (own === "" || options.cachesPrefixes?.(model) === false) return "";
    for (const { engine } of options.pool.upstreams(model)) assertApart(engine, path);
    return own;
  };
  const { defaultOutputTokens } = options.limits;
  const owner = { tenant, watch: (leave: () => void) => cancellation.onCancel(leave) };
  const keySource = keySourceOf(model);
  const scope = cacheScope();
  const terms = { route, path, bytes, body, headers, keySource, defaultOutputTokens, cacheScope: scope, owner };
  const routed = await routedRequest(model, terms, options.routing(model));
  const entrant = { request: routed, tenant, priority: caller.priority ?? request.priority ?? priorityOf(body) };
  return { request, entrant, cacheScope, schedulesByPriority: options.schedulesByPriority?.(model) === true };
}
