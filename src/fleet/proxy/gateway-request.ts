/** Creates the request that policies see, for a client or for the gateway itself. */
import type { IncomingHttpHeaders } from "node:http";
import type { Route } from "../../gateway/api/routes.js";
import type { Cancellation } from "../../gateway/cancellation.js";
import { assertMemberNames } from "../../gateway/member-names.js";
import { DEAF_OBSERVER, type RequestObserver } from "../../gateway/observer.js";
import { assertPlainFields, withUsualNames } from "../../gateway/plain-fields.js";
import type { Caller, GatewayRequest, RequestBody } from "../../gateway/request.js";
import { mayUse } from "../../gateway/tenants/model-access.js";
import { RequestRecord } from "../../gateway/usage/record.js";
import type { ProxyOptions } from "./options.js";
import { modelOf } from "./request-terms.js";

interface RequestParts {
  readonly id: string;
  readonly url: string;
  readonly path: string;
  readonly route: Route;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly caller: Caller;
  readonly cancellation: Cancellation;
  /** Whether the client forbids keeping its answer; absent: its body says so. */
  readonly isPrivate?: boolean;
  /** Absent: the proxy's observer sees the request. */
  readonly observer?: RequestObserver | undefined;
  /** Absent: a new record. */
  readonly record?: RequestRecord | undefined;
}

/**
 * Throws model_not_found if the fleet has no such model, unknown_field for a field in another case, and
 * invalid_parameter for an amount that an engine might read differently.
 */
export function gatewayRequest(options: ProxyOptions, parts: RequestParts): GatewayRequest {
  const { id, url, path, route, headers, caller, cancellation } = parts;
  assertMemberNames(parts.body);
  assertPlainFields(parts.body);
  const { bytes, body } = withUsualNames(path, parts.bytes, parts.body);
  const isShown = (name: string) => mayUse(caller, name, options.modelOf ?? ((same) => same));
  const model = modelOf(body, options.pool.models(), options.modelOf, options.virtualModels?.(), isShown);
  const isStream = body.stream === true;
  const start = { requestId: id, path, model, tenant: caller.tenant, isStream, headers };
  const observer = parts.observer ?? (options.observer ?? DEAF_OBSERVER).started(start);
  const record = parts.record ?? new RequestRecord();
  // OpenAI's field for private answers.
  record.isPrivate = parts.isPrivate ?? body.store === false;
  // Field by field: spreading an object and adding fields takes a hundred times as long. Absent fields are set too, so
  // that all requests have one shape.
  return {
    id,
    url,
    path,
    route,
    headers,
    bytes,
    body,
    asked: model,
    model,
    caller,
    isStream,
    priority: undefined,
    deadlineMs: undefined,
    cancellation,
    observer,
    record,
  };
}
