/** Whose key a request has, and whether that operator's role is enough. */
import { noAdminKey } from "../../core/admin-key.js";
import { createKeySearch } from "../../core/api-keys.js";
import { MillraceError } from "../../core/errors.js";
import { type Operator, ROLES, type Role } from "../config/sections/operators.js";

/** Throws not_found without operators, and invalid_api_key where the key is nobody's. */
export function operatorOf(
  operators: readonly Operator[],
  authorization: string | undefined,
  apiKey: string | undefined,
): Operator {
  if (operators.length === 0) throw noAdminKey("add it, or operators, to the configuration");
  return operators[createKeySearch(operators.map(({ key }) => key.reveal()))(authorization, apiKey)]!;
}

/** Throws forbidden where the role is too small. */
export function assertRole({ name, role }: Pick<Operator, "name" | "role">, needed: Role): void {
  if (ROLES.indexOf(role) >= ROLES.indexOf(needed)) return;
  throw new MillraceError("forbidden", `expected the role ${needed}, got ${role}, the role of ${name}`, {
    hint: "who writes the gateway's file gives roles, under operators",
  });
}
