/**
 * The name of the operator who sends a request to /admin, in an application of Hono. The check of keys sets the name.
 */
import type { Context } from "hono";
import { ADMIN_NAME } from "../../core/sign-in/roles.js";

const NAME = "operator-name";

export function setOperatorName(c: Context, name: string): void {
  c.set(NAME, name);
}

export function operatorNameIn(c: Context): string {
  return c.get(NAME) as string;
}

/** Undefined for the `admin-key`, which several people may share. */
export function personIn(c: Context): string | undefined {
  const name = c.get(NAME) as string | undefined;
  return name === ADMIN_NAME ? undefined : name;
}
