/** Requests from the gateway itself. They pass all policies, as a client's do. */
import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { bodyJson } from "../../core/json-body.js";
import type { AnswerSink } from "../../gateway/answer.js";
import { routeOf } from "../../gateway/api/routes.js";
import type { Cancellation } from "../../gateway/cancellation.js";
import { DEAF_REQUEST } from "../../gateway/observer.js";
import type { Ending, Handler } from "../../gateway/pipeline.js";
import type { Caller, RequestBody } from "../../gateway/request.js";
import type { RequestRecord } from "../../gateway/usage/record.js";
import type { ExchangeContext } from "./arrival.js";
import { gatewayRequest } from "./gateway-request.js";

export interface OwnRequest {
  readonly id: string;
  /** A path of the API, such as /v1/chat/completions. */
  readonly path: string;
  readonly body: RequestBody;
  /** The JSON of `body`, if already serialized. */
  readonly bytes?: Buffer;
  readonly headers?: IncomingHttpHeaders;
  /** The caller on whose behalf the gateway asks. */
  readonly caller: Caller;
  readonly cancellation: Cancellation;
  readonly record?: RequestRecord;
  /** Handles the request in place of all policies and instances. */
  readonly handle?: Handler;
}

export async function submitOwn(
  { options, handle }: ExchangeContext,
  own: OwnRequest,
  sink: AnswerSink,
): Promise<Ending> {
  const { id, path, body, caller, cancellation, headers = {} } = own;
  const route = routeOf(path);
  if (route === undefined) throw new MillraceError("not_found", `expected a path of the API, got ${path.slice(0, 80)}`);
  const bytes = own.bytes ?? Buffer.from(bodyJson(body));
  // Metrics and traces count only clients' requests.
  const terms = { caller, cancellation, observer: DEAF_REQUEST, record: own.record };
  const parts = { id, url: path, path, route, headers, bytes, body, ...terms };
  return await (own.handle ?? handle)(gatewayRequest(options, parts), sink);
}
