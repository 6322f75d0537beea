/**
 * A gateway with limits, to be killed by a test. Each request names its key; what it cost is written into a ledger in
 * the gateway's database.
 *
 *   node limited-gateway.mjs <JSON: folder, port, upstream, store, url, scopes by key>
 */
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS } from "../../dist/src/fleet/proxy/options.js";
import { startProxy } from "../../dist/src/fleet/proxy/proxy.js";
import { DEFAULT_ROUTING } from "../../dist/src/fleet/routing/router.js";
import { EmbeddedStore } from "../../dist/src/gateway/budget/embedded-store.js";
import { LimitsPolicy } from "../../dist/src/gateway/budget/limits-policy.js";
import { PostgresStore } from "../../dist/src/gateway/budget/postgres-store.js";
import { RedisStore } from "../../dist/src/gateway/budget/redis-store.js";
import { readReservations } from "../../dist/src/gateway/budget/reservation-rows.js";
import { costOf } from "../../dist/src/gateway/prices/price.js";
import { openDatabase } from "../../dist/src/gateway/store/database.js";
import { groupCommitOf } from "../../dist/src/gateway/store/group-commit.js";

const { folder, port, upstream, store: kind, url, scopes, price: amounts, leaseMs } = JSON.parse(process.argv[2]);
const price = Object.fromEntries(
  Object.entries(amounts).map(([name, value]) => [name, name === "version" ? value : BigInt(value)]),
);
const withLimits = (scope) => ({
  ...scope,
  limits: {
    ...scope.limits,
    budgets: scope.limits.budgets.map(({ window, hard }) => ({ unit: "money", window, hard: BigInt(hard) })),
  },
});
const scopesOf = new Map(Object.entries(scopes).map(([key, each]) => [key, each.map(withLimits)]));

const database = openDatabase(folder);
const commits = groupCommitOf(database);
database.exec("CREATE TABLE IF NOT EXISTS test_ledger (id TEXT PRIMARY KEY, key TEXT NOT NULL, cost INTEGER NOT NULL)");
const insert = database.prepare("INSERT OR IGNORE INTO test_ledger VALUES (?, ?, ?)");

function openStore() {
  if (kind === "redis") return new RedisStore({ url, timeoutMs: 5000, leaseMs });
  if (kind === "postgresql") return new PostgresStore({ url, timeoutMs: 5000, leaseMs });
  const embedded = new EmbeddedStore({ database, commits, now: () => Date.now() });
  // What an earlier process had reserved becomes a charge: its row is written first, and once.
  for (const { id, money, moneyKeys } of readReservations(database)) {
    insert.run(id, moneyKeys.at(-1)[0].split("/")[1], money);
  }
  return embedded;
}

const store = openStore();
let nextId = 0;
/** Outside of the limits, so that its row is committed together with the settlement. */
const ledger = {
  name: "ledger",
  async handle(request, sink, next) {
    try {
      return await next(request, sink);
    } finally {
      const cost = request.record.attempts.reduce(
        (sum, { usage }) => sum + (usage === undefined ? 0n : costOf(usage, price)),
        0n,
      );
      void commits.run(() => insert.run(`${process.pid}-${nextId++}`, request.caller.tenant, Number(cost)));
    }
  },
};
const limits = new LimitsPolicy({
  openStore: () => store,
  prices: { priceOf: () => price },
  highestPriceOf: () => price,
  modelScope: () => undefined,
  modelOf: (name) => name,
  promptFacts: () => ({ maxModelLen: undefined, templateTokens: undefined }),
  traits: () => ({ hasContinuousUsage: true, isPaid: false, maxTokensField: "max_tokens" }),
  defaultOutputTokens: () => 32,
  isFailOpen: () => false,
  events: { softLimit() {}, unreserved() {}, failed() {}, lost() {}, leftReserved() {}, recovered() {} },
  epochMs: () => Date.now(),
  now: () => performance.now(),
});
limits.open();

const instance = {
  id: "mock",
  model: "m",
  engine: "vllm",
  state: "ready",
  isComing: false,
  target: { url: upstream, apiKey: undefined, modelName: undefined },
  starts: 1,
  capacity: { seats: undefined, kvTokens: undefined, blockSize: undefined },
  metrics: undefined,
};
const pool = {
  models: () => ["m"],
  upstreams: () => [instance],
  onChange: () => () => {},
  reportFailure: async () => {},
};
const silent = { debug() {}, info() {}, warn() {}, error() {} };
await startProxy({
  pool,
  routing: () => ({ ...DEFAULT_ROUTING, policy: "round-robin" }),
  authorize: ({ authorization = "" }) => {
    const key = authorization.replace("Bearer ", "");
    return { tenant: key, scopes: scopesOf.get(key) };
  },
  limits: DEFAULT_PROXY_LIMITS,
  timeouts: DEFAULT_PROXY_TIMEOUTS,
  policies: [ledger, limits, limits.upstream],
  host: "127.0.0.1",
  port,
  logger: silent,
});
process.stdout.write("ready\n");
process.on("message", async (message) => {
  if (message !== "close") return;
  await limits.close();
  process.exit(0);
});
