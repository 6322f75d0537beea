/** Keys of `cache`, for the fleet and for a model, and of `idempotency`. */
import { z } from "zod";
import { byteSize, duration, secret, section, text, timeLimit } from "../../../core/config-values.js";

const PACES = ["none", "original"] as const;
const CACHE_STORES = ["embedded", "memory", "redis"] as const;

const MiB = 1024 * 1024;

/** Keys that a model may set for itself. Missing keys take the fleet's values. */
const modelShape = {
  enabled: z.boolean().optional().describe("whether answers are kept (default: true where there is a `cache`)"),
  ttl: timeLimit().optional().describe("time for which an answer is kept (24h)"),
  "max-answer-bytes": byteSize().optional().describe("largest answer that is kept, or shared while it is made (1MiB)"),
  sampled: z
    .boolean()
    .optional()
    .describe(
      "keeps also what was drawn at a temperature without a seed: all equal requests then get one draw (false)",
    ),
  "assume-deterministic": z
    .boolean()
    .optional()
    .describe("takes another engine at its word that temperature 0, or a seed, always gives the same answer (false)"),
  pace: z
    .enum(PACES)
    .optional()
    .describe("kept streams are sent at once (none), or at the pace at which they were made (original) (none)"),
  "shared-as": text("a name")
    .regex(/^[\w.-]{1,64}$/)
    .optional()
    .describe("name of the answers that all tenants share (default: each tenant has its own)"),
  headers: z
    .array(text("a header's name").regex(/^[a-z0-9-]+$/))
    .max(32)
    .optional()
    .describe("further headers of requests that change answers, in lower case"),
  version: text()
    .optional()
    .describe(
      "identity of what answers behind `attach`, or under a name that the engine downloads: change it when that changes",
    ),
};

/** Redis, as `redis://` or, over TLS, `rediss://`. */
const redisUrl = (environment: NodeJS.ProcessEnv) =>
  secret(environment).meta({
    title: "the URL of a Redis, or env:NAME with the environment variable that holds it",
    examples: ["redis://127.0.0.1:6379", "env:REDIS_URL"],
  });

export const modelCache = () => section(modelShape).optional().describe("values that override the fleet's `cache`");

export const cache = (environment: NodeJS.ProcessEnv) =>
  section({
    ...modelShape,
    store: z
      .enum(CACHE_STORES)
      .prefault("embedded")
      .describe(
        "where answers lie: the gateway's database, its memory, or a redis of several gateways; fixed at the start",
      ),
    "max-bytes": byteSize()
      .prefault("256MiB")
      .describe("size of all kept answers; the least recently used go first; fixed at the start"),
    "memory-bytes": byteSize()
      .prefault("64MiB")
      .describe("part of them that the embedded store also holds in memory; fixed at the start"),
    "redis-url": redisUrl(environment).optional().describe("address of the redis; fixed at the start"),
    "redis-prefix": text("a name")
      .regex(/^[\w.:-]{1,64}$/)
      .prefault("millrace-cache")
      .describe("beginning of all keys in redis; fixed at the start"),
  })
    .optional()
    .describe("keeps answers and gives them again to equal requests; without it nothing is kept");

export const idempotency = () =>
  section({
    enabled: z.boolean().prefault(true).describe("whether the header Idempotency-Key is heeded; fixed at the start"),
    ttl: timeLimit().prefault("24h").describe("time for which an answer is kept under its key"),
    grace: duration()
      .prefault("10s")
      .describe("time that an answer is made on after its client has left, so that a retry can join it"),
    "max-bytes": byteSize()
      .prefault("64MiB")
      .describe(
        "size of all answers kept under keys; the oldest of the tenant with the most bytes go first; fixed at the start",
      ),
    "max-answer-bytes": byteSize().prefault("4MiB").describe("largest answer that is kept under a key"),
  });

type ModelCache = z.output<ReturnType<typeof modelCache>>;

/** The model's settings, then the fleet's, then the defaults. */
export function cacheOf(fleet: ModelCache, model: ModelCache) {
  const own = <K extends keyof NonNullable<ModelCache>>(key: K) => model?.[key] ?? fleet?.[key];
  return {
    isEnabled: own("enabled") ?? (fleet !== undefined || model !== undefined),
    ttlMs: own("ttl") ?? 24 * 3_600_000,
    maxAnswerBytes: own("maxAnswerBytes") ?? MiB,
    keepsSampled: own("sampled") ?? false,
    assumesDeterministic: own("assumeDeterministic") ?? false,
    pace: own("pace") ?? "none",
    sharedAs: own("sharedAs"),
    headers: own("headers") ?? [],
    version: own("version"),
  };
}
