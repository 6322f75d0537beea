/** The name of the operator whose key a request of /admin has, in an application of Hono. The check of keys sets it. */
import type { Context } from "hono";

const NAME = "operator-name";

export function setOperatorName(c: Context, name: string): void {
  c.set(NAME, name);
}

export function operatorNameIn(c: Context): string {
  return c.get(NAME) as string;
}
