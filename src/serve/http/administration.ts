/** Paths that need the administrator's key: the models on this machine's disk, under /admin and in Ollama's API. */
import type { Hono } from "hono";
import { assertAdminKey } from "../../core/admin-key.js";
import type { Sessions } from "../../core/sign-in/sessions.js";
import type { AppContext, AppEnv, AppOptions } from "./context.js";
import { isAdministrator } from "./sign-in.js";

export const ADMIN_KEY_REMEDY = "start the server with --admin-key";

/** Throws not_found where the server has no such key, and invalid_api_key. */
export const checkAdministrator = (c: AppContext, adminKey: string | undefined): void =>
  assertAdminKey(adminKey, c.req.header("Authorization"), c.req.header("x-api-key"), ADMIN_KEY_REMEDY);

export function addAdministration(app: Hono<AppEnv>, { adminKey, library }: AppOptions, sessions: Sessions): void {
  app.use("/admin/*", async (c, next) => {
    c.set("route", "/admin");
    if (!isAdministrator(c, sessions)) checkAdministrator(c, adminKey);
    await next();
  });
  if (library !== undefined) app.route("/admin/library", library.app);
}
