/**
 * Paths that need the administrator's key: the models on this machine's disk, under /admin and in Ollama's API, and
 * reports.
 */
import type { Hono } from "hono";
import { assertAdminKey } from "../../core/admin-key.js";
import type { Sessions } from "../../core/sign-in/sessions.js";
import { createReportsApp } from "../../observe/reports/reports-app.js";
import type { AppContext, AppEnv, AppOptions } from "./context.js";
import { isAdministrator } from "./sign-in.js";

const REPORTS_REMEDY = "it needs --reports and the name of a folder at its start";
export const ADMIN_KEY_REMEDY = "start the server with --admin-key";

/** Throws not_found if the server has no such key, and invalid_api_key. */
export const checkAdministrator = (c: AppContext, adminKey: string | undefined): void =>
  assertAdminKey(adminKey, c.req.header("Authorization"), c.req.header("x-api-key"), ADMIN_KEY_REMEDY);

export function addAdministration(app: Hono<AppEnv>, options: AppOptions, sessions: Sessions): void {
  const { adminKey, library, reports } = options;
  const check = (c: AppContext): void => {
    if (!isAdministrator(c, sessions)) checkAdministrator(c, adminKey);
  };
  app.use("/admin/*", async (c, next) => {
    c.set("route", "/admin");
    check(c);
    await next();
  });
  app.use("/watch/reports/*", async (c, next) => {
    c.set("route", "/watch/reports");
    await next();
  });
  app.route("/watch/reports", createReportsApp(reports, check, REPORTS_REMEDY));
  if (library !== undefined) app.route("/admin/library", library.app);
}
