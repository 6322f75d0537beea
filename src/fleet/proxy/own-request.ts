/** Requests that the gateway makes itself. They pass all policies, as a client's do. */
import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { bodyJson } from "../../core/json-body.js";
import type { AnswerSink } from "../../gateway/answer.js";
import { routeOf } from "../../gateway/api/routes.js";
import type { Cancellation } from "../../gateway/cancellation.js";
import { DEAF_OBSERVER, DEAF_REQUEST } from "../../gateway/observer.js";
import type { Ending } from "../../gateway/pipeline.js";
import type { Caller, RequestBody } from "../../gateway/request.js";
import { RequestRecord } from "../../gateway/usage/record.js";
import type { ExchangeContext } from "./arrival.js";
import { modelOf } from "./request-terms.js";

export interface OwnRequest {
  readonly id: string;
  /** A path of the API, such as /v1/chat/completions. */
  readonly path: string;
  readonly body: RequestBody;
  /** The JSON of `body`, if it is at hand. */
  readonly bytes?: Buffer;
  readonly headers?: IncomingHttpHeaders;
  /** On whose behalf. */
  readonly caller: Caller;
  readonly cancellation: Cancellation;
  /** Absent: the request is not counted among the clients'. */
  readonly isObserved?: boolean;
  readonly record?: RequestRecord;
}

export async function submitOwn(
  { options, handle }: ExchangeContext,
  own: OwnRequest,
  sink: AnswerSink,
): Promise<Ending> {
  const { id, path, body, caller, cancellation, headers = {}, isObserved = false } = own;
  const route = routeOf(path);
  if (route === undefined) throw new MillraceError("not_found", `expected a path of the API, got ${path.slice(0, 80)}`);
  const model = modelOf(body, options.pool.models(), options.modelOf, options.virtualModels?.());
  const isStream = body.stream === true;
  const start = { requestId: id, path, model, tenant: caller.tenant, isStream, headers };
  const observer = isObserved ? (options.observer ?? DEAF_OBSERVER).started(start) : DEAF_REQUEST;
  const record = own.record ?? new RequestRecord();
  const bytes = own.bytes ?? Buffer.from(bodyJson(body));
  const request = {
    id,
    url: path,
    path,
    route,
    headers,
    bytes,
    body,
    model,
    caller,
    isStream,
    cancellation,
    observer,
    record,
  };
  return await handle(request, sink);
}
