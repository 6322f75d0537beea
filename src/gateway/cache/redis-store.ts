/**
 * Kept answers in Redis, for several gateways. The gateways themselves keep the bound in bytes and the order of use,
 * whatever Redis is set to evict.
 */
import type { Redis } from "ioredis";
import { sha256 } from "./answer-key.js";
import { type AnswerStore, fits, type PurgeFilter, type StoreStats } from "./answer-store.js";
import { bytesOf, decodeAnswer, encodeAnswer, type StoredAnswer } from "./stored-answer.js";

interface RedisStoreOptions {
  readonly url: string;
  /** Prefix of every key, in braces: a cluster then keeps all keys on one node, as scripts need. */
  readonly prefix: string;
  readonly maxBytes: number;
  /** The tenant with the most bytes makes room; else the least recently used answers of any tenant. */
  readonly isFair: boolean;
  readonly commandTimeoutMs?: number;
}

/** A later answer is a miss: making a new one may take less. */
const COMMAND_TIMEOUT_MS = 250;
const SCAN_COUNT = 500;

/**
 * KEYS: uses, facts, bytes, owners by their bytes. ARGV: prefix of answers, id. Each owner's uses have a key of their
 * own. In a fair store, `uses` itself has the answers of an earlier release, which go first.
 */
const DROPPING = `
local function drop(id, uses)
  local json = redis.call('HGET', KEYS[2], id)
  if json then
    local facts = cjson.decode(json)
    redis.call('DECRBY', KEYS[3], facts.bytes)
    redis.call('HDEL', KEYS[2], id)
    if facts.owner then
      uses = KEYS[1] .. ':' .. facts.owner
      local left = redis.call('ZINCRBY', KEYS[4], -facts.bytes, facts.owner)
      if tonumber(left) <= 0 then redis.call('ZREM', KEYS[4], facts.owner) end
    end
  end
  redis.call('ZREM', uses, id)
  return redis.call('DEL', ARGV[1] .. id)
end`;

/**
 * Further ARGV: answer, its bytes, facts, time of use, lifetime in ms, most bytes, owner or "". Room is made before the
 * insertion, so that the new answer does not go itself if its tenant has no other.
 */
const PUT = `${DROPPING}
drop(ARGV[2], KEYS[1])
local most = tonumber(ARGV[8])
if tonumber(ARGV[4]) > most then return 0 end
local total = tonumber(redis.call('GET', KEYS[3]) or 0)
while total + tonumber(ARGV[4]) > most do
  local from = KEYS[1]
  local oldest = redis.call('ZRANGE', from, 0, 0)[1]
  local owner = redis.call('ZRANGE', KEYS[4], -1, -1)[1]
  if not oldest and owner then
    from = from .. ':' .. owner
    oldest = redis.call('ZRANGE', from, 0, 0)[1]
  end
  if oldest then drop(oldest, from)
  elseif owner then redis.call('ZREM', KEYS[4], owner)
  else break end
  total = tonumber(redis.call('GET', KEYS[3]) or 0)
end
redis.call('SET', ARGV[1] .. ARGV[2], ARGV[3], 'PX', ARGV[7])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[5])
local uses = KEYS[1]
if ARGV[9] ~= '' then
  uses = uses .. ':' .. ARGV[9]
  redis.call('ZINCRBY', KEYS[4], ARGV[4], ARGV[9])
end
redis.call('ZADD', uses, ARGV[6], ARGV[2])
redis.call('INCRBY', KEYS[3], ARGV[4])
return 1`;

const DROP = `${DROPPING}
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return 0 end
return drop(ARGV[2], KEYS[1])`;

interface Facts extends Pick<StoredAnswer, "model" | "tenant" | "tags" | "expiresMs"> {
  readonly bytes: number;
  /** The tenant's name in keys, if the store is fair. */
  readonly owner?: string;
}

export class RedisStore implements AnswerStore {
  readonly #keys: readonly [uses: string, facts: string, bytes: string, owners: string];
  readonly #answers: string;

  private constructor(
    private readonly redis: Redis,
    private readonly options: RedisStoreOptions,
    private readonly now: () => number,
  ) {
    const head = `{${options.prefix}}`;
    this.#answers = `${head}:answer:`;
    this.#keys = [`${head}:uses`, `${head}:facts`, `${head}:bytes`, `${head}:owners`];
  }

  /**
   * Connects in the background, and again after every failure.
   * @param onError called at each failure of the connection
   */
  static async open(options: RedisStoreOptions, onError: (error: Error) => void, now = Date.now): Promise<RedisStore> {
    const { Redis } = await import("ioredis");
    const redis = new Redis(options.url, {
      commandTimeout: options.commandTimeoutMs ?? COMMAND_TIMEOUT_MS,
      connectTimeout: 2000,
      // A command fails at once while there is no connection.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (attempt) => Math.min(100 * 2 ** attempt, 5000),
    });
    redis.on("error", onError);
    return new RedisStore(redis, options, now);
  }

  /** Resolves when commands can be sent. */
  async whenReady(): Promise<void> {
    if (this.redis.status === "ready") return;
    await new Promise<void>((resolve) => this.redis.once("ready", () => resolve()));
  }

  async get(id: string): Promise<StoredAnswer | undefined> {
    const bytes = await this.redis.getBuffer(this.#answers + id);
    const answer = bytes === null ? undefined : decodeAnswer(bytes);
    if (answer === undefined || answer.expiresMs <= this.now()) return undefined;
    // XX: an answer under removal is not added again.
    const owner = this.#ownerOf(answer);
    const uses = this.#keys[0] + (owner === "" ? "" : `:${owner}`);
    this.redis.zadd(uses, "XX", this.now(), id).catch(() => {});
    return answer;
  }

  async put(id: string, answer: StoredAnswer): Promise<void> {
    const { model, tenant, tags, expiresMs } = answer;
    const bytes = bytesOf(answer);
    const owner = this.#ownerOf(answer);
    const facts: Facts = { model, tenant, tags, expiresMs, bytes, ...(owner === "" ? {} : { owner }) };
    const nowMs = this.now();
    const lifeMs = Math.max(1, Math.ceil(expiresMs - nowMs));
    const { maxBytes } = this.options;
    const values = [id, encodeAnswer(answer), bytes, JSON.stringify(facts), nowMs, lifeMs, maxBytes, owner];
    await this.redis.eval(PUT, this.#keys.length, ...this.#keys, this.#answers, ...values);
  }

  async purge(filter: PurgeFilter): Promise<number> {
    let numPurged = 0;
    for await (const [id, facts] of this.#all()) {
      const isGone = facts.expiresMs <= this.now();
      if (!isGone && !fits(filter, id, facts)) continue;
      const numDropped = await this.redis.eval(DROP, this.#keys.length, ...this.#keys, this.#answers, id);
      if (!isGone) numPurged += Number(numDropped);
    }
    return numPurged;
  }

  async stats(): Promise<StoreStats> {
    const [, facts, bytes] = this.#keys;
    const [entries, numBytes] = await Promise.all([this.redis.hlen(facts), this.redis.get(bytes)]);
    return { kind: "redis", entries, bytes: Number(numBytes ?? 0), maxBytes: this.options.maxBytes };
  }

  async close(): Promise<void> {
    this.redis.disconnect();
  }

  /** "": the answers of all tenants make room together. */
  #ownerOf({ tenant }: StoredAnswer): string {
    return this.options.isFair ? sha256(tenant) : "";
  }

  async *#all(): AsyncGenerator<readonly [id: string, facts: Facts]> {
    let cursor = "0";
    do {
      const [next, found] = await this.redis.hscan(this.#keys[1], cursor, "COUNT", SCAN_COUNT);
      cursor = next;
      for (let i = 0; i + 1 < found.length; i += 2) yield [found[i]!, JSON.parse(found[i + 1]!) as Facts];
    } while (cursor !== "0");
  }
}
