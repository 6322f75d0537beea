/** Creates the exact cache and the policy of Idempotency-Key from the configuration, with their store. */
import type { AnswerStore } from "../../gateway/cache/answer-store.js";
import { type AnswerTableName, isFair } from "../../gateway/cache/answer-table.js";
import { EmbeddedStore } from "../../gateway/cache/embedded-store.js";
import { ExactCache } from "../../gateway/cache/exact-cache.js";
import { LazyStore } from "../../gateway/cache/lazy-store.js";
import { MemoryStore } from "../../gateway/cache/memory-store.js";
import { RedisStore } from "../../gateway/cache/redis-store.js";
import { SafeStore } from "../../gateway/cache/safe-store.js";
import { Idempotency } from "../../gateway/idempotency/idempotency.js";
import type { FleetConfig } from "../config/schema.js";
import { cacheOf } from "../config/sections/cache.js";
import { needsKeys } from "./authorize.js";
import { perConfig } from "./per-config.js";
import type { PolicyContext } from "./policy-context.js";

/** @returns undefined if no model has a cache */
export async function createExactCache(context: PolicyContext): Promise<ExactCache | undefined> {
  const { config, models, metrics } = context;
  const { cache, models: configured } = config();
  if (!configured.some((model) => cacheOf(cache, model.cache).isEnabled)) return undefined;
  const { maxBytes = DEFAULT_MAX_BYTES, memoryBytes = DEFAULT_MEMORY_BYTES } = cache ?? {};
  const { open, onFailure } = storeOf(context, "cache_exact", maxBytes, memoryBytes);
  return new ExactCache({
    store: new SafeStore(await open(), onFailure),
    modelOf: perConfig(config, (name, { cache: fleet, models: all }) => {
      const model = models.resolve(name);
      const entry = all.find((each) => each.name === model);
      const settings = entry === undefined ? undefined : cacheOf(fleet, entry.cache);
      if (model === undefined || settings?.isEnabled !== true) return undefined;
      const isOwnEngine = models.engine(model) === "millrace";
      return {
        name: model,
        isOwnEngine,
        settings,
        get version() {
          return models.version(model);
        },
      };
    }),
    hasOwnKeys: () => needsKeys(config()),
    onResult: (model, result, saved) => metrics.cacheAnswered(model, result, saved),
  });
}

/** @returns undefined if the configuration switches it off */
export async function createIdempotency(context: PolicyContext): Promise<Idempotency | undefined> {
  const { config } = context;
  const { idempotency } = config();
  if (!idempotency.enabled) return undefined;
  const { open, onFailure } = storeOf(context, "idempotency", idempotency.maxBytes, 0);
  return new Idempotency({
    // Few gateways see the header; the others need no database for it.
    store: new SafeStore(new LazyStore(open), onFailure),
    settings: () => {
      const { ttl: ttlMs, grace: graceMs, maxAnswerBytes } = config().idempotency;
      return { ttlMs, graceMs, maxAnswerBytes };
    },
    hasOwnKeys: () => needsKeys(config()),
  });
}

/** Names of changed keys that take effect only at the next start. */
export function fixedCacheKeys(after: FleetConfig, before: FleetConfig): readonly string[] {
  const of = ({ cache, idempotency, models }: FleetConfig): Readonly<Record<string, unknown>> => ({
    cache: models.some((model) => cacheOf(cache, model.cache).isEnabled),
    "cache.store": cache?.store,
    "cache.max-bytes": cache?.maxBytes,
    "cache.memory-bytes": cache?.memoryBytes,
    "cache.redis-url": cache?.redisUrl?.reveal(),
    "cache.redis-prefix": cache?.redisPrefix,
    "idempotency.enabled": idempotency.enabled,
    "idempotency.max-bytes": idempotency.maxBytes,
  });
  const [now, then] = [of(after), of(before)];
  // If the cache is switched on or off, the key `cache` stands for all of its keys.
  const keys = now.cache === then.cache ? Object.keys(now) : ["cache", "idempotency.enabled", "idempotency.max-bytes"];
  return keys.filter((key) => now[key] !== then[key]);
}

const MiB = 1024 * 1024;
const DEFAULT_MAX_BYTES = 256 * MiB;
const DEFAULT_MEMORY_BYTES = 64 * MiB;

function storeOf(
  { config, cacheDatabase, logger }: PolicyContext,
  table: AnswerTableName,
  maxBytes: number,
  maxMemoryBytes: number,
) {
  const { store = "embedded", redisUrl, redisPrefix = "" } = config().cache ?? {};
  const onFailure = (err: unknown) =>
    logger.warn({ err, store, table }, "kept answers cannot be reached, so requests go on without them");
  const open = async (): Promise<AnswerStore> => {
    if (store === "memory") return new MemoryStore(maxBytes, Date.now, isFair(table));
    if (store === "embedded") return new EmbeddedStore(cacheDatabase("answers"), { table, maxBytes, maxMemoryBytes });
    const prefix = table === "cache_exact" ? redisPrefix : `${redisPrefix}-${table}`;
    // Without a connection, commands fail, and the log records the failures.
    return await RedisStore.open({ url: redisUrl!.reveal(), prefix, maxBytes, isFair: isFair(table) }, () => {});
  };
  return { open, onFailure };
}

/** Model → the operator's name for its present version. */
export function versionWords({ cache, models }: FleetConfig): ReadonlyMap<string, string> {
  const words = models.map(({ name, cache: own }) => [name, cacheOf(cache, own).version] as const);
  return new Map(words.filter((each): each is readonly [string, string] => each[1] !== undefined));
}
