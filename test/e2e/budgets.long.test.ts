/**
 * Budgets under fire, on each store: 64 clients, answers of random sizes, some cut by their clients and some by their
 * server, and a gateway that is killed every few seconds. MILLRACE_BUDGET_REQUESTS sets how many requests.
 */
import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, request } from "undici";
import { describe, expect, test } from "vitest";
import { claimsOf } from "../../src/gateway/budget/claims.js";
import { PostgresStore } from "../../src/gateway/budget/postgres-store.js";
import { RedisStore } from "../../src/gateway/budget/redis-store.js";
import type { BudgetStore } from "../../src/gateway/budget/store.js";
import { openDatabase } from "../../src/gateway/store/database.js";
import { postgresPath, redisPath, startPostgres, startRedis } from "../helpers/database-servers.js";
import { freePort } from "../helpers/free-port.js";
import { embeddedStore } from "../helpers/limited-fleet.js";
import { TestRng } from "../helpers/rng.js";

const NUM_REQUESTS = Number(process.env.MILLRACE_BUDGET_REQUESTS ?? 64_000);
const NUM_CLIENTS = 64;
const KILL_EVERY_MS = 3_000;
const KEYS = ["a", "b", "c", "d"];
/** Nano-dollars per million tokens: a prompt's token costs 1, an answer's 3. */
const PRICE = { version: "1", fresh: 1_000_000, cacheRead: 1_000_000, cacheWrite: 1_000_000, output: 3_000_000 };
/** Mean cost of a request, about. */
const MEAN = 200;

const scope = (kind: string, id: string, hard: number) => ({
  kind: kind as "key",
  id,
  limits: { budgets: ["day", "month"].map((window) => ({ window: window as "day", hard })) },
});
// The organisation can pay for less than all requests, and keys for more than their share of that.
const ORG = scope("org", "org", Math.round(NUM_REQUESTS * MEAN * 0.4));
const keyScope = (key: string) => scope("key", key, Math.round((NUM_REQUESTS * MEAN * 0.6) / KEYS.length));
const SCOPES = Object.fromEntries(KEYS.map((key) => [key, [ORG, keyScope(key)]]));

/** Answers like an engine of ours. The client's first message says how. */
async function startMock() {
  const server = createServer(async (incoming, outgoing) => {
    let text = "";
    for await (const chunk of incoming) text += chunk;
    const body = JSON.parse(text) as { messages: { content: string }[]; max_tokens?: number; stream?: boolean };
    const plan = JSON.parse(body.messages[0]!.content.split("\n")[0]!) as {
      output: number;
      prompt: number;
      end: string;
    };
    const output = Math.min(plan.output, body.max_tokens ?? plan.output);
    if (plan.end === "fail") return void outgoing.writeHead(500).end("{}");
    const usage = (tokens: number) => ({
      prompt_tokens: plan.prompt,
      total_tokens: plan.prompt + tokens,
      completion_tokens: tokens,
    });
    if (body.stream !== true) {
      outgoing.writeHead(200, { "content-type": "application/json" });
      outgoing.end(JSON.stringify({ choices: [], usage: usage(output) }));
      return;
    }
    outgoing.writeHead(200, { "content-type": "text/event-stream" });
    write(outgoing, output, plan.end === "break", usage);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

function write(outgoing: ServerResponse, output: number, breaks: boolean, usage: (tokens: number) => object): void {
  let written = 0;
  const next = (): void => {
    if (outgoing.destroyed) return;
    if (written < output) {
      // Several events at once, now and then.
      const last = Math.min(output, written + 1 + (written % 4));
      let events = "";
      while (written < last) {
        const choices = [{ index: 0, delta: { content: `t${written} ` }, finish_reason: null }];
        events += `data: ${JSON.stringify({ choices, usage: usage(++written) })}\n\n`;
      }
      outgoing.write(events);
      setImmediate(next);
    } else if (breaks) outgoing.destroy();
    else outgoing.end(`data: ${JSON.stringify({ choices: [], usage: usage(output) })}\n\ndata: [DONE]\n\n`);
  };
  next();
}

class Gateway {
  #child: ChildProcess | undefined;
  readonly #script = join(import.meta.dirname, "../helpers/limited-gateway.mjs");

  constructor(private readonly options: object) {}

  async start(): Promise<void> {
    const child = fork(this.#script, [JSON.stringify(this.options)], { stdio: ["ignore", "pipe", "inherit", "ipc"] });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.stdout!.once("data", () => resolve());
      child.once("exit", (code) => reject(new Error(`the gateway ended with ${code}`)));
    });
  }

  async #end(how: () => void): Promise<void> {
    const exited = new Promise((resolve) => this.#child!.once("exit", resolve));
    how();
    await exited;
  }

  kill(): Promise<void> {
    return this.#end(() => this.#child!.kill("SIGKILL"));
  }

  close(): Promise<void> {
    return this.#end(() => this.#child!.send("close"));
  }
}

interface Tally {
  answered: number;
  refused: number;
  cut: number;
  lost: number;
  /** Why requests were lost. */
  readonly reasons: Map<string, number>;
  /** Nano-dollars of tokens that clients have got, by key. */
  readonly received: Map<string, number>;
}

async function runClients(url: string, tally: Tally): Promise<void> {
  let left = NUM_REQUESTS;
  const dispatcher = new Agent({ connections: NUM_CLIENTS });
  const client = async (seed: number): Promise<void> => {
    const rng = new TestRng(seed);
    while (left-- > 0) {
      const key = rng.pick(KEYS);
      const output = 1 + rng.int(0, rng.chance(0.1) ? 400 : 60);
      const prompt = 5 + rng.int(0, 60 - 1);
      const chance = rng.int(0, 100 - 1);
      const end = chance < 3 ? "break" : chance < 5 ? "fail" : "stop";
      const leavesAfter = chance >= 90 ? 1 + rng.int(0, output - 1) : Number.POSITIVE_INFINITY;
      const content = `${JSON.stringify({ output, prompt, end })}\n${"x".repeat(prompt)}`;
      const stream = rng.int(0, 10 - 1) < 7;
      // Others reserve thousands of tokens, which a kill turns into charges: few requests would be left to test.
      const maxTokens = !stream || rng.chance(0.3) ? { max_tokens: 20 + rng.int(0, 100) } : {};
      await ask(
        url,
        dispatcher,
        { key, leavesAfter, prompt, body: { model: "m", messages: [{ content }], stream, ...maxTokens } },
        tally,
      );
    }
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, (_, seed) => client(seed)));
  await dispatcher.close();
}

interface Ask {
  readonly key: string;
  readonly leavesAfter: number;
  readonly prompt: number;
  readonly body: { readonly stream: boolean; readonly [field: string]: unknown };
}

/** Tries again for as long as there is no gateway. */
async function ask(
  url: string,
  dispatcher: Agent,
  { key, leavesAfter, prompt, body }: Ask,
  tally: Tally,
): Promise<void> {
  let numTokens = 0;
  try {
    const response = await request(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      dispatcher,
    });
    if (response.statusCode === 429) {
      tally.refused++;
      await response.body.dump();
      return;
    }
    if (!body.stream || response.statusCode !== 200) {
      const { usage } = (await response.body.json()) as { usage?: { completion_tokens: number } };
      numTokens = usage?.completion_tokens ?? 0;
      if (usage !== undefined) tally.received.set(key, (tally.received.get(key) ?? 0) + prompt + 3 * numTokens);
      tally.answered++;
      return;
    }
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      const text = chunk.toString("latin1");
      numTokens += text.split('"delta"').length - 1;
      if (text.includes("budget_exceeded")) tally.cut++;
      if (numTokens >= leavesAfter) break;
    }
    tally.answered++;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ECONNREFUSED") {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return ask(url, dispatcher, { key, leavesAfter, prompt, body }, tally);
    }
    tally.lost++;
    const code = (thrown as NodeJS.ErrnoException).code ?? (thrown as Error).message;
    tally.reasons.set(code, (tally.reasons.get(code) ?? 0) + 1);
  }
  if (numTokens > 0) tally.received.set(key, (tally.received.get(key) ?? 0) + prompt + 3 * numTokens);
}

async function underFire(kind: string, url: string, openStore: (folder: string) => BudgetStore): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-budgets-"));
  const mock = await startMock();
  const port = await freePort();
  const options = { folder, port, upstream: mock.url, store: kind, url, scopes: SCOPES, price: PRICE, leaseMs: 10_000 };
  const gateway = new Gateway(options);
  await gateway.start();
  const tally: Tally = { answered: 0, refused: 0, cut: 0, lost: 0, reasons: new Map(), received: new Map() };
  const startMs = performance.now();
  let kills = 0;
  let isOver = false;
  const killer = (async () => {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, KILL_EVERY_MS));
      if (isOver) return;
      await gateway.kill();
      kills++;
      await gateway.start();
    }
  })();
  await runClients(`http://127.0.0.1:${port}`, tally);
  isOver = true;
  await killer;
  const seconds = (performance.now() - startMs) / 1000;

  // Within a minute everything that was reserved is settled or charged.
  const endMs = performance.now();
  await gateway.close();
  const store = openStore(folder);
  do {
    await new Promise((resolve) => setTimeout(resolve, 200));
    await store.tend();
  } while ((await store.numOpen()) > 0 && performance.now() - endMs < 60_000);
  expect(await store.numOpen()).toBe(0);

  const levels = async (scoped: ReturnType<typeof keyScope>) => {
    const budgets = scoped.limits.budgets.map(({ window, hard }) => ({
      unit: "money" as const,
      window,
      hard: BigInt(hard),
    }));
    return (await store.read(claimsOf([{ ...scoped, limits: { budgets } }]))).budgets;
  };
  const [day, month] = await levels(ORG);
  const usedByKeys: Record<string, number> = {};
  for (const key of KEYS) {
    const scoped = keyScope(key);
    for (const { used, held } of await levels(scoped)) {
      expect(held).toBe(0);
      expect(used).toBeLessThanOrEqual(scoped.limits.budgets[0]!.hard);
      expect(used).toBeGreaterThanOrEqual(tally.received.get(key) ?? 0);
      usedByKeys[key] = used;
    }
  }
  const total = Object.values(usedByKeys).reduce((sum, each) => sum + each, 0);
  expect([day!.held, month!.held, month!.used]).toEqual([0, 0, total]);
  expect(month!.used).toBeLessThanOrEqual(ORG.limits.budgets[0]!.hard);
  if (kind === "embedded") {
    const database = openDatabase(folder);
    const rows = database.prepare("SELECT key, sum(cost) AS cost FROM test_ledger GROUP BY key").all();
    const ledger = Object.fromEntries((rows as { key: string; cost: number }[]).map(({ key, cost }) => [key, cost]));
    expect(usedByKeys).toEqual(ledger);
    database.close();
  }
  await store.close();
  mock.server.closeAllConnections();
  mock.server.close();
  rmSync(folder, { recursive: true });
  const share = ((100 * month!.used) / ORG.limits.budgets[0]!.hard).toFixed(3);
  const { answered, refused, cut, lost } = tally;
  console.log(
    `${kind}: ${NUM_REQUESTS} requests in ${seconds.toFixed(0)} s, ${answered} answered, ${refused} refused, ${cut} cut, ${lost} lost (${JSON.stringify([...tally.reasons])}), ` +
      `${kills} kills: spent ${month!.used} of ${ORG.limits.budgets[0]!.hard} (${share} %)`,
  );
  expect(refused).toBeGreaterThan(0);
  expect(kills).toBeGreaterThan(0);
}

describe("no budget is overspent, and nothing stays reserved", () => {
  const timeout = 1_800_000;
  test("embedded", () => underFire("embedded", "", (folder) => embeddedStore(folder)), timeout);

  test.skipIf(redisPath === undefined)(
    "Redis (needs redis-server)",
    async () => {
      await using server = await startRedis();
      await underFire(
        "redis",
        server.url,
        () => new RedisStore({ url: server.url, timeoutMs: 5_000, leaseMs: 10_000 }),
      );
    },
    timeout,
  );

  test.skipIf(postgresPath === undefined)(
    "PostgreSQL (needs postgres)",
    async () => {
      await using server = await startPostgres();
      const { url } = server;
      await underFire("postgresql", url, () => new PostgresStore({ url, timeoutMs: 5_000, leaseMs: 10_000 }));
    },
    timeout,
  );
});
