/** Whose request it is: the tenant that the configuration gave its API key to. */
import { createKeyCheck } from "../core/api-keys.js";
import type { Secret } from "./config/values.js";
import type { Authorize } from "./proxy/options.js";

/** Without keys everybody may, and all are one tenant. */
export function authorizeBy(keys: readonly { readonly tenant: string; readonly key: Secret }[]): Authorize {
  const check = createKeyCheck(keys.map(({ key }) => key.reveal()));
  const nameOf = new Map(keys.map(({ tenant, key }) => [check(undefined, key.reveal()), tenant]));
  return ({ authorization, "x-api-key": apiKey }) => ({
    tenant: nameOf.get(check(authorization, typeof apiKey === "string" ? apiKey : undefined)) ?? "",
  });
}
