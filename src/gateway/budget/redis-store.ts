/**
 * Limits that several gateways share in Redis: a script does each turn at once. Redis's own settings decide what
 * survives its crash.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createRequire } from "node:module";
import type { Redis } from "ioredis";
import { MillraceError } from "../../core/errors.js";
import { BatchedStore } from "./batched-store.js";
import type { Claims } from "./claims.js";
import type { Operation, Result } from "./operations.js";
import { TURN_SCRIPT } from "./redis-script.js";
import { LEASE_MS, type Levels, type Limit } from "./store.js";

export interface SharedStoreOptions {
  readonly url: string;
  /** An operation that takes longer is rejected. */
  readonly timeoutMs: number;
  readonly leaseMs?: number;
  /** Milliseconds since 1970; absent: the server's own clock, which all gateways share. */
  readonly now?: () => number;
  /** Keeps several deployments apart in one server. */
  readonly namespace?: string;
}

/** The braces keep all keys on one server of a cluster, as a script needs. */
const PREFIX = "{millrace}:budget";
const LIMITS: readonly Limit[] = ["budget", "concurrent", "requests", "tokens"];

type Turn = (prefix: string, owner: string, leaseMs: number, now: string, operations: string) => Promise<unknown[]>;

export class RedisStore extends BatchedStore {
  readonly #owner = randomUUID();
  readonly #redis: Redis;
  readonly #turn: Turn;

  constructor(private readonly options: SharedStoreOptions) {
    super(Number.POSITIVE_INFINITY);
    // Loaded at the first use: this client and PostgreSQL's would make every gateway's start a twentieth longer.
    const ioredis = createRequire(import.meta.url)("ioredis") as typeof import("ioredis");
    this.#redis = new ioredis.Redis(options.url, {
      // A sent command may have been done: the caller decides whether to send it again.
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      connectTimeout: options.timeoutMs,
      commandTimeout: options.timeoutMs,
      retryStrategy: (attempt) => Math.min(50 * attempt, 1000),
    });
    // Each failed operation reports its own error.
    this.#redis.on("error", () => {});
    this.#redis.defineCommand("budgetTurn", { numberOfKeys: 1, lua: TURN_SCRIPT });
    const commands = this.#redis as unknown as { readonly budgetTurn: Turn };
    this.#turn = (...args) => commands.budgetTurn(...args);
  }

  protected override async turn(take: () => readonly Operation[]): Promise<readonly Result[]> {
    try {
      await this.#whenReady();
      const operations = take();
      const { leaseMs = LEASE_MS, now, namespace } = this.options;
      const prefix = namespace === undefined ? PREFIX : `${PREFIX}:${namespace}`;
      const encoded = JSON.stringify(operations.map(encode));
      const results = await this.#turn(prefix, this.#owner, leaseMs, now === undefined ? "" : String(now()), encoded);
      return operations.map((operation, i) => decode(operation, results[i]));
    } catch (cause) {
      const message = `expected Redis to answer, got ${(cause as Error).message}`;
      throw new MillraceError("budget_store_failed", message, { hint: "check Redis and the key `budgets`", cause });
    }
  }

  async #whenReady(): Promise<void> {
    if (this.#redis.status === "ready") return new Promise((resolve) => setImmediate(resolve));
    if (this.#redis.status === "end") throw new Error("a closed connection");
    await once(this.#redis, "ready", { signal: AbortSignal.timeout(this.options.timeoutMs) });
  }

  async close(): Promise<void> {
    this.#redis.disconnect();
  }
}

const pairs = (claims: readonly { readonly key: string; readonly limit: number }[]) =>
  claims.map(({ key, limit }) => [key, limit]);

function encodeClaims({ budgets, requests, tokens, concurrent }: Claims) {
  return {
    budgets: budgets.map(({ key, hard }) => [key, hard]),
    requests: pairs(requests),
    tokens: pairs(tokens),
    places: pairs(concurrent),
  };
}

function encode(operation: Operation): object {
  switch (operation.op) {
    case "reserve": {
      const { id, claims, want, least, tokens } = operation.reservation;
      const encoded = encodeClaims(claims);
      // Stored as text, since Lua would write large numbers with fewer digits. The name `money` is older than budgets
      // of tokens; gateways of earlier versions read it.
      const held = JSON.stringify({ money: encoded.budgets, tokens: encoded.tokens, places: encoded.places });
      return { op: "reserve", id, want, least, tokens, claims: encoded, held };
    }
    case "charge":
    case "read":
      return { ...operation, claims: encodeClaims(operation.claims) };
    default:
      return operation;
  }
}

type Numbers = readonly number[];
type EncodedLevels = readonly [readonly (readonly [number, number, number])[], Numbers, Numbers, Numbers];

function levelsOf([budgets, requests, tokens, concurrent]: EncodedLevels): Levels {
  return { budgets: budgets.map(([used, held, startMs]) => ({ used, held, startMs })), requests, tokens, concurrent };
}

function decode({ op }: Operation, result: unknown): Result {
  switch (op) {
    case "reserve": {
      const [first, second, third] = result as readonly unknown[];
      if (first === 0) {
        const [money, tokens] = second as readonly [number, number];
        return { kind: "reserved", amounts: { money, tokens }, levels: levelsOf(third as EncodedLevels) };
      }
      const [limit, index, retryAfterMs] = first as readonly [number, number, number];
      const levels = levelsOf(second as EncodedLevels);
      return { kind: "refused", limit: LIMITS[limit - 1]!, index, retryAfterMs, levels };
    }
    case "resize": {
      const [code, value] = result as readonly [number, number];
      if (code === 0) return { kind: "resized", money: value };
      return code === 1 ? { kind: "refused", isHeld: value === 1 } : { kind: "gone" };
    }
    case "settle":
      return result === 1;
    case "charge":
      return null;
    case "read":
      return levelsOf(result as EncodedLevels);
    case "recover":
      return (result as [string, number, number][]).map(([id, money, tokens]) => ({ id, money, tokens }));
    case "count":
      return result as number;
  }
}
