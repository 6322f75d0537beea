/** Finds the operator of a request's key, and checks the operator's role. */
import { noAdminKey } from "../../core/admin-key.js";
import { createKeySearch } from "../../core/api-keys.js";
import { MillraceError } from "../../core/errors.js";
import { ROLES, type Role, type Who } from "../../core/sign-in/roles.js";
import type { Operator } from "../config/sections/operators.js";

export const OPERATORS_KEY = "an operator's key";

/** The operator with a key; undefined: an unknown key. */
export function operatorWith(operators: readonly Operator[], key: string): Operator | undefined {
  try {
    return operatorOf(operators, undefined, key);
  } catch {
    return undefined;
  }
}

/** Throws not_found without operators, and invalid_api_key for an unknown key. */
export function operatorOf(
  operators: readonly Operator[],
  authorization: string | undefined,
  apiKey: string | undefined,
): Operator {
  if (operators.length === 0) throw noAdminKey("add it, or operators, to the configuration");
  // A client's key is invalid here, though valid elsewhere.
  const search = createKeySearch(
    operators.map(({ key }) => key.reveal()),
    OPERATORS_KEY,
  );
  return operators[search(authorization, apiKey)]!;
}

/** Throws forbidden if the role is too low. */
export function assertRole({ name, role }: Who, needed: Role): void {
  if (ROLES.indexOf(role) >= ROLES.indexOf(needed)) return;
  throw new MillraceError("forbidden", `expected the role ${needed}, got ${role}, the role of ${name}`, {
    hint: "who writes the gateway's file gives roles, under operators",
  });
}
