/**
 * A caller's identity, for work that continues after the request and after a restart: plain JSON without a secret, and
 * without rights, which may change meanwhile.
 */
import type { Caller } from "./request.js";

export interface CallerIdentity {
  readonly tenant: string;
  /** Id of a managed key. */
  readonly keyId?: string | undefined;
  /** Ids of the scopes, from the widest to the narrowest. Absent: none. */
  readonly scopes?: readonly string[] | undefined;
  /** Patterns of the models that the caller's token allows. Absent: there is no token, or it allows all. */
  readonly tokenModels?: readonly string[] | undefined;
}

/**
 * Finds the caller in its current state. Throws or rejects: invalid_api_key if the key or its owner is gone,
 * key_store_unavailable, identity_provider_unavailable
 */
export type CallerOf = (identity: CallerIdentity) => Caller | Promise<Caller>;

export function identityOf({ tenant, keyId, scopes, tokenModels }: Caller): CallerIdentity {
  return { tenant, keyId, scopes: scopes?.map(({ id }) => id), tokenModels };
}
