/** Controls for some roles only; other roles see which role they need. */
import type { ComponentChildren } from "preact";
import { type OperatorRole, session } from "../api/session.js";

const ROLES: readonly OperatorRole[] = ["viewer", "operator", "admin"];

export function Allowed({ least, children }: { readonly least: OperatorRole; readonly children: ComponentChildren }) {
  const own = session.value?.role;
  // Visitors without a session see the controls: the server asks them to sign in.
  if (own == null || ROLES.indexOf(own) >= ROLES.indexOf(least)) return <>{children}</>;
  return <span class="hint">needs the role {least}</span>;
}
