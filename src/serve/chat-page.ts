/** GET /: the chat page, one self-contained file. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../core/package-root.js";
import type { AppContext } from "./http/context.js";

let page: string | undefined;

/** Lets the page run only its own scripts and connect only to this server. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function chatPage(c: AppContext): Response {
  page ??= readFileSync(join(packageRoot(), "assets/chat.html"), "utf8");
  return c.html(page, 200, {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
  });
}
