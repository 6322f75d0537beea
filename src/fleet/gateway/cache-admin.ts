/** The administrator's view of kept answers: counts them and purges them. */
import { Hono } from "hono";
import { MillraceError } from "../../core/errors.js";
import { snakeNames } from "../../core/snake-names.js";
import type { PurgeFilter } from "../../gateway/cache/answer-store.js";
import type { CacheStats } from "../../gateway/cache/exact-cache.js";

interface CacheAdmin {
  stats(): Promise<CacheStats>;
  purge(filter: PurgeFilter): Promise<number>;
}

/** Query parameter → filter field. */
const FILTERS = { id: "id", model: "model", tenant: "tenant", tag: "tag", prefix: "tagPrefix" } as const;
const ID = /^[0-9a-f]{64}$/;

/**
 * Paths under /admin.
 *
 * @param cache undefined: no answers are kept
 * @param modelOf resolves a name to a model
 */
export function createCacheApp(cache: CacheAdmin | undefined, modelOf: (name: string) => string): Hono {
  const app = new Hono();
  const known = (): CacheAdmin => {
    if (cache !== undefined) return cache;
    throw new MillraceError("not_found", "expected a fleet with a cache, got none", {
      hint: "add cache: {} to the configuration, and start the fleet again",
    });
  };
  app.get("/cache", async (c) => c.json(snakeNames(await known().stats())));
  app.delete("/cache", async (c) => c.json({ purged: await known().purge(filterOf(c.req.query(), modelOf)) }));
  return app;
}

/** Only `all=true` purges everything; a misspelt filter purges nothing. */
function filterOf(query: Readonly<Record<string, string>>, modelOf: (name: string) => string): PurgeFilter {
  const names = Object.keys(query);
  if (names.length === 1 && query.all === "true") return {};
  const unknown = names.find((name) => !Object.hasOwn(FILTERS, name));
  if (unknown !== undefined || names.length === 0) {
    const got = unknown === undefined ? "none" : JSON.stringify(unknown.slice(0, 80));
    throw new MillraceError(
      "invalid_parameter",
      `expected ${Object.keys(FILTERS).join(", ")} or all=true, got ${got}`,
      {
        hint: "DELETE /admin/cache?model=NAME purges what that model answered",
      },
    );
  }
  const filter = Object.fromEntries(names.map((name) => [FILTERS[name as keyof typeof FILTERS], query[name]]));
  if (query.id !== undefined && !ID.test(query.id)) {
    throw new MillraceError("invalid_parameter", "id: expected 64 hexadecimal digits, got another value", {
      param: "id",
    });
  }
  return query.model === undefined ? filter : { ...filter, model: modelOf(query.model) };
}
