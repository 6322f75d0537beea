/** Alerts under test: a ledger of six weeks, a watch over it, and servers that get webhooks. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { afterEach } from "vitest";
import type { Secret } from "../../src/core/config-values.js";
import { AlertWatch } from "../../src/gateway/alerts/alert-watch.js";
import type { WebhookFormat } from "../../src/gateway/alerts/webhook.js";
import { HOUR_MS } from "../../src/gateway/ledger/hour-sums.js";
import { ADD_TO_HOUR, createLedgerTables, SUMS } from "../../src/gateway/ledger/ledger-tables.js";
import { openDatabase } from "../../src/gateway/store/database.js";

const closing: (() => unknown)[] = [];
/** To call after the test. */
export const onEnd = (close: () => unknown): void => void closing.push(close);
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const WEEK_HOURS = 168;
const START = Date.parse("2026-01-05");
/** Six weeks later, within an hour. */
export const NOW = START + 6 * WEEK_HOURS * HOUR_MS + 600_000;

interface Receiver {
  readonly url: string;
  readonly received: { readonly headers: IncomingHttpHeaders; readonly body: Record<string, unknown> }[];
  status: number;
}

export async function receiver(): Promise<Receiver> {
  const server = createServer(async (incoming, outgoing) => {
    let text = "";
    for await (const chunk of incoming) text += chunk;
    it.received.push({ headers: incoming.headers, body: JSON.parse(text) });
    outgoing.writeHead(it.status).end("thanks");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  const it: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received: [],
    status: 200,
  };
  return it;
}

/** Two keys that spend a dollar an hour each, and what one of them spends in some hours instead. */
export function ledger(dollars: Readonly<Record<number, number>>) {
  const database = openDatabase(undefined);
  createLedgerTables(database);
  const add = database.prepare(ADD_TO_HOUR);
  const insert = (hour: number, key: string, cost: number): void => {
    const sums: Record<string, number> = {
      requests: 100,
      attempts: 100,
      fresh: 50_000,
      output: 10_000,
      cost: cost * 1e9,
    };
    add.run([hour, "acme", "", key, "m", "openai", 200, ...SUMS.map((name) => sums[name] ?? 0)]);
  };
  const thisHour = NOW - (NOW % HOUR_MS);
  database.exec("BEGIN");
  for (let hour = START; hour < thisHour; hour += HOUR_MS) {
    insert(hour, "k1", dollars[(hour - thisHour) / HOUR_MS] ?? 1);
    insert(hour, "k2", 1);
  }
  if (dollars[0] !== undefined) insert(thisHour, "k1", dollars[0]);
  database.exec("COMMIT");
  return database;
}

export function watch(
  database: ReturnType<typeof openDatabase>,
  url: string | undefined,
  time = { now: NOW },
  format: WebhookFormat = "millrace",
  secret?: Secret,
) {
  const options = {
    database,
    logger: pino({ level: "silent" }),
    webhooks: url === undefined ? [] : [{ url, format, secret }],
    coolDownMs: 6 * HOUR_MS,
    minCost: 1,
    minRequests: 20,
  };
  const made = new AlertWatch({ ...options, epochMs: () => time.now });
  closing.push(() => made.close());
  return made;
}
