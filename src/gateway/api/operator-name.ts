/** The name of the operator whose key a request of /admin has, in an application of Hono. The check of keys sets it. */
import type { Context } from "hono";
import { ADMIN_NAME } from "../../core/sign-in/roles.js";

const NAME = "operator-name";

export function setOperatorName(c: Context, name: string): void {
  c.set(NAME, name);
}

export function operatorNameIn(c: Context): string {
  return c.get(NAME) as string;
}

/** Undefined where nobody is named: several people may have the `admin-key`. */
export function personIn(c: Context): string | undefined {
  const name = c.get(NAME) as string | undefined;
  return name === ADMIN_NAME ? undefined : name;
}
