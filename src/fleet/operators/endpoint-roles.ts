/** The role that each endpoint under /admin needs: one complete table. */
import type { Context, Hono } from "hono";
import { matchedRoutes } from "hono/route";
import { MillraceError } from "../../core/errors.js";
import type { Role } from "../../core/sign-in/roles.js";

/**
 * Method and path of each route → the least role. A viewer may read everything except the audit and the gateway's
 * requests to the hub. These use the gateway's own token: they may name private repositories, use up its quota, and
 * only
 * help operators who may pull.
 */
export const ENDPOINT_ROLES: Readonly<Record<string, Role>> = {
  "GET /metrics/tenants": "viewer",
  "GET /watch/tenants": "viewer",
  "GET /watch/requests": "viewer",
  "GET /watch/reports": "viewer",
  "GET /admin/library": "viewer",
  "GET /admin/library/hub": "operator",
  "GET /admin/library/hub/:org/:repo": "operator",
  "GET /admin/library/memory": "operator",
  "GET /admin/library/pulls": "viewer",
  "GET /admin/library/pulls/:id": "viewer",
  "DELETE /admin/library/pulls/:id": "operator",
  "PUT /admin/library/models/:model{.+}": "operator",
  "DELETE /admin/library/models/:model{.+}": "operator",
  "POST /admin/library/models/:model{.+}/load": "operator",
  "GET /admin/models": "viewer",
  "DELETE /admin/models/:model{.+}": "operator",
  "GET /admin/instances": "viewer",
  "POST /admin/instances/:id/:action{drain|restart}": "operator",
  "POST /admin/models/:model{.+}/scale": "operator",
  "GET /admin/canaries": "operator",
  "GET /admin/canaries/:model{.+}": "operator",
  "POST /admin/canaries": "admin",
  "DELETE /admin/canaries/:model{.+}": "operator",
  "GET /admin/cache": "viewer",
  "DELETE /admin/cache": "operator",
  "GET /admin/semantic-cache": "viewer",
  "POST /admin/semantic-cache/:model{.+}/reset": "operator",
  "GET /admin/routes": "viewer",
  "GET /admin/cascades": "viewer",
  "POST /admin/cascades/:name{.+}/open": "operator",
  "GET /admin/batches": "viewer",
  "POST /admin/batches/:id/cancel": "operator",
  "GET /admin/ledger/requests": "viewer",
  "GET /admin/ledger/spend": "viewer",
  "GET /admin/ledger/export": "viewer",
  "GET /admin/alerts": "viewer",
  "GET /admin/alerts/silences": "viewer",
  "POST /admin/alerts/silences": "operator",
  "DELETE /admin/alerts/silences/:id": "operator",
  "GET /admin/quality": "viewer",
  "GET /admin/quality/samples": "viewer",
  "DELETE /admin/quality/samples": "operator",
  "POST /admin/quality/accept": "operator",
  "GET /admin/orgs": "viewer",
  "POST /admin/orgs": "admin",
  "GET /admin/orgs/:id": "viewer",
  "PATCH /admin/orgs/:id": "admin",
  "DELETE /admin/orgs/:id": "admin",
  "GET /admin/teams": "viewer",
  "POST /admin/teams": "admin",
  "GET /admin/teams/:id{.+}": "viewer",
  "PATCH /admin/teams/:id{.+}": "admin",
  "DELETE /admin/teams/:id{.+}": "admin",
  "GET /admin/keys": "viewer",
  "POST /admin/keys": "admin",
  "POST /admin/keys/:id/rotate": "admin",
  "GET /admin/keys/:id": "viewer",
  "PATCH /admin/keys/:id": "admin",
  "DELETE /admin/keys/:id": "admin",
  "GET /admin/audit": "admin",
};

const keyOf = ({ method, path }: { readonly method: string; readonly path: string }): string => `${method} ${path}`;

/** Excludes the check of keys, which precedes all endpoints. */
const isEndpoint = (route: { readonly method: string; readonly path: string }): boolean =>
  keyOf(route) !== "ALL /admin/*";

/** Throws if an endpoint under /admin is missing from the table. */
export function assertRolesStated(app: Hono): void {
  const missing = app.routes.find(
    (route) => isEndpoint(route) && route.path.startsWith("/admin/") && !Object.hasOwn(ENDPOINT_ROLES, keyOf(route)),
  );
  if (missing === undefined) return;
  throw new MillraceError("internal_error", `expected a role for ${keyOf(missing)}, got none`, {
    hint: "add it to src/fleet/operators/endpoint-roles.ts",
  });
}

/** The least role for a request; undefined: the endpoint does not exist. */
export function roleFor(c: Context): Role | undefined {
  const route = matchedRoutes(c).find(isEndpoint);
  return route === undefined ? undefined : ENDPOINT_ROLES[keyOf(route)];
}
