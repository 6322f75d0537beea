/** A request as policies see it: read, authorized and with its model, but without a socket. */
import type { IncomingHttpHeaders } from "node:http";
import type { Route } from "./api/routes.js";
import type { Cancellation } from "./cancellation.js";
import { withFields } from "./edit-json.js";
import type { RequestObserver } from "./observer.js";
import type { Scope } from "./scope.js";
import type { RequestRecord } from "./usage/record.js";

/** The JSON of a request, unchecked. */
export type RequestBody = Readonly<Record<string, unknown>>;

/** The authorized sender of a request. */
export interface Caller {
  /** The unit of fairness; the same for all requests if there are no keys. */
  readonly tenant: string;
  /**
   * Priority class of all the caller's requests; undefined: each request's own `priority`, else 0. A lower number goes
   * first.
   */
  readonly priority?: number | undefined;
  /** Cache scope of the caller's requests; absent: the shared one. */
  readonly cacheScope?: string | undefined;
  /** Id of the caller's API key, which is not secret; absent: there are no managed keys. */
  readonly keyId?: string | undefined;
  /**
   * The person or program that holds the key or token: names the holder's own belongings, and is not secret. It stays
   * the same when a managed key rotates and for all tokens of a subject; a replaced key of the file gets a new holder.
   * Absent: holders cannot be told apart.
   */
  readonly holder?: string | undefined;
  /** Limits and budgets that hold for the caller, from the widest scope to the narrowest. Absent: none. */
  readonly scopes?: readonly Scope[] | undefined;
  /** The caller's key or token is for the gateway only, and is not sent to instances. */
  readonly isKeyHidden?: boolean | undefined;
  /**
   * Patterns of the models that the caller's token allows; `allowsModel` includes them. Absent: there is no token, or
   * it allows all.
   */
  readonly tokenModels?: readonly string[] | undefined;
  /** Whether the caller may use the named model. Absent: any. */
  readonly allowsModel?: ((model: string) => boolean) | undefined;
}

/** The holder of a managed key. */
export const keyHolder = (keyId: string): string => `key:${keyId}`;

export interface GatewayRequest {
  readonly id: string;
  /** Path and query. */
  readonly url: string;
  readonly path: string;
  readonly route: Route;
  /** The client's headers. */
  readonly headers: IncomingHttpHeaders;
  /** The JSON that `body` was parsed from; empty for a GET. */
  readonly bytes: Buffer;
  readonly body: RequestBody;
  /** The model's name as the client sent it, possibly an alias. */
  readonly asked: string;
  /** Name of the model to ask: `asked`, or a policy's choice. The last stage writes it into the body. */
  readonly model: string;
  readonly caller: Caller;
  readonly isStream: boolean;
  /** Lower goes first; absent: the body's `priority`. The caller's own overrides both. */
  readonly priority?: number | undefined;
  /** Time of `performance.now()` after which the answer is useless; absent: never. */
  readonly deadlineMs?: number | undefined;
  readonly cancellation: Cancellation;
  readonly observer: RequestObserver;
  readonly record: RequestRecord;
}

/** The request with other fields; all other bytes of the client's stay unchanged. */
export function withBody(request: GatewayRequest, fields: RequestBody): GatewayRequest {
  const body = { ...request.body, ...fields };
  const isStream = body.stream === true;
  const model = typeof fields.model === "string" ? fields.model : request.model;
  return { ...request, model, body, bytes: withFields(request.bytes, request.body, fields), isStream };
}

/** The request for another model. The client's bytes stay: the last stage writes the name into them. */
export function withModel(request: GatewayRequest, model: string): GatewayRequest {
  return { ...request, model };
}
