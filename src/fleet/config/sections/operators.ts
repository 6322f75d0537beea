/** Keys that list the people who may see and change the gateway itself: `admin-key` and `operators`. */
import { z } from "zod";
import { type Secret, secret, section, text } from "../../../core/config-values.js";
import { ADMIN_NAME, ROLES, type Who } from "../../../core/sign-in/roles.js";

/** A person who may use /admin. */
export interface Operator extends Who {
  readonly key: Secret;
}

const operator = (environment: NodeJS.ProcessEnv) =>
  section({
    name: text("at most 64 letters, digits, ., _, @, + and -")
      .regex(/^[\w.@+-]{1,64}$/)
      .describe("name in the audit and in the app"),
    role: z
      .enum(ROLES)
      .describe(
        "viewer (reads), operator (also drains, restarts, scales, loads and purges) or admin (also changes keys, limits and budgets)",
      ),
    key: secret(environment).describe("the key, or env:NAME"),
  });

export const operatorKeys = (environment: NodeJS.ProcessEnv) => ({
  "admin-key": secret(environment)
    .optional()
    .describe("key that gives access to all of /admin; without it and operators there is no /admin"),
  operators: z
    .array(operator(environment))
    .max(256)
    .default([])
    .describe("people who see or run the gateway, each with a key and a role of their own"),
});

/** All operators, the holder of the `admin-key` first. */
export function operatorsOf(config: {
  readonly adminKey?: Secret | undefined;
  readonly operators: readonly Operator[];
}): readonly Operator[] {
  const { adminKey: key, operators } = config;
  return key === undefined ? operators : [{ name: ADMIN_NAME, role: "admin", key }, ...operators];
}
