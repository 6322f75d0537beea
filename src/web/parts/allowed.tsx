/** What only some roles may do, or the reason why it is not there. */
import type { ComponentChildren } from "preact";
import { type OperatorRole, session } from "../api/session.js";

const ROLES: readonly OperatorRole[] = ["viewer", "operator", "admin"];

export function Allowed({ least, children }: { readonly least: OperatorRole; readonly children: ComponentChildren }) {
  const own = session.value?.role;
  // Of those who have not signed in the server asks for it.
  if (own == null || ROLES.indexOf(own) >= ROLES.indexOf(least)) return <>{children}</>;
  return <span class="hint">needs the role {least}</span>;
}
