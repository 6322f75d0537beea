/** The administrator's view of a fleet without instances, for tests of single parts of the gateway. */
import type { Hono } from "hono";
import { Secret } from "../../src/core/config-values.js";
import { Sessions } from "../../src/core/sign-in/sessions.js";
import type { AdminTarget } from "../../src/fleet/admin.js";
import { operatorsOf } from "../../src/fleet/config/sections/operators.js";
import { LiveFeed } from "../../src/observe/live/feed.js";
import { History } from "../../src/observe/live/history.js";

export function adminTarget(
  parts: readonly (Hono | undefined)[],
  adminKey: () => Secret | undefined = () => new Secret("boss"),
): AdminTarget {
  return {
    models: () => ({ data: [] }),
    instances: () => [],
    drain: async () => {},
    restart: async () => {},
    scale: () => ({ instances: 1, limitedBy: undefined }),
    load: async (_, name) => name ?? "m",
    unload: async () => {},
    isLoaded: () => false,
    library: undefined,
    metrics: async () => ({ text: "", contentType: "text/plain" }),
    live: new LiveFeed(async () => "", new History()),
    requests: async () => ({ rows: [], kept: 0 }),
    needsKeys: () => false,
    clientWith: () => ({ tenant: "" }),
    sessions: new Sessions(),
    operators: () => operatorsOf({ adminKey: adminKey(), operators: [] }),
    bodyTimeoutMs: () => 60_000,
    inBackground: () => {},
    parts: parts.filter((part) => part !== undefined),
  };
}
