import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Secret } from "../../core/config-values.js";
import { HOUR_MS } from "../ledger/hour-sums.js";
import { ADD_TO_HOUR, createLedgerTables, SUMS } from "../ledger/ledger-tables.js";
import { openDatabase } from "../store/database.js";
import { AlertStore } from "./alert-store.js";
import { AlertWatch } from "./alert-watch.js";
import { createAlertsApp } from "./alerts-app.js";
import type { WebhookFormat, WebhookTarget } from "./webhook.js";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const WEEK_HOURS = 168;
const START = Date.parse("2026-01-05");
/** Six weeks later, within an hour. */
const NOW = START + 6 * WEEK_HOURS * HOUR_MS + 600_000;

interface Receiver {
  readonly url: string;
  readonly received: { readonly headers: IncomingHttpHeaders; readonly body: Record<string, unknown> }[];
  status: number;
}

async function receiver(): Promise<Receiver> {
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
function ledger(dollars: Readonly<Record<number, number>>) {
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

function watch(
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

test("a dear hour is found for its key and for all, sent once each, and listed", async () => {
  const hook = await receiver();
  const database = ledger({ [-1]: 40 });
  const alerts = watch(database, hook.url);
  await alerts.look();
  await alerts.look();
  expect(hook.received.map(({ headers, body }) => [headers["x-millrace-alert-id"], body.text])).toEqual([
    ["spend all 2026-02-15T23", "all: $41.00 spent, about $2.00 is usual, in the hour from 23:00 UTC"],
    ["spend acme/k1 2026-02-15T23", "acme/k1: $40.00 spent, about $1.00 is usual, in the hour from 23:00 UTC"],
  ]);
  expect(hook.received[1]!.body).toMatchObject({ metric: "spend", tenant: "acme", key: "k1", value: 40 });
  // Another gateway on the same database has nothing to add.
  await watch(database, hook.url).look();
  expect(hook.received).toHaveLength(2);
  const app = createAlertsApp(alerts.store, () => NOW);
  const list = async (query: string) =>
    (await (await app.request(`/alerts${query}`)).json()) as Record<string, unknown>;
  expect(await list("?limit=1")).toMatchObject({ data: [{ key: "k1", tries: 1 }], has_more: true, next_cursor: 2 });
  expect(await list("?cursor=2")).toMatchObject({ data: [{ key: "" }], has_more: false });
});

test("an hour that is dear before it is over is found at once, and not again within the cool-down", async () => {
  const database = ledger({ 0: 30 });
  const time = { now: NOW };
  const alerts = watch(database, undefined, time);
  await alerts.look();
  expect(alerts.store.page(100, 10)).toMatchObject([{ alert: { metric: "spend", key: "k1" }, deliveredMs: null }]);
  time.now += HOUR_MS;
  await alerts.look();
  expect(alerts.store.page(100, 10).filter(({ alert }) => alert.key === "k1")).toHaveLength(1);
});

test("a webhook that fails is tried again later and later, with the same id", async () => {
  const hook = await receiver();
  hook.status = 500;
  const time = { now: NOW };
  const alerts = watch(ledger({ [-1]: 40 }), hook.url, time);
  const idsAfter = async (minutes: number) => {
    time.now = NOW + minutes * 60_000;
    await alerts.look();
    return hook.received.splice(0).map(({ headers }) => headers["x-millrace-alert-id"]);
  };
  const both = ["spend all 2026-02-15T23", "spend acme/k1 2026-02-15T23"];
  expect(await idsAfter(0)).toEqual(both);
  expect(await idsAfter(0.5)).toEqual([]);
  expect(await idsAfter(1)).toEqual(both);
  expect(await idsAfter(2)).toEqual([]);
  hook.status = 204;
  expect(await idsAfter(3)).toEqual(both);
  expect(await idsAfter(40)).toEqual([]);
  expect(alerts.store.page(100, 10)).toMatchObject([{ tries: 3, deliveredMs: NOW + 180_000 }, { tries: 3 }]);
});

test("what Alertmanager and Slack send is sent in their form", async () => {
  const hook = await receiver();
  for (const format of ["alertmanager", "slack"] as const)
    await watch(ledger({ [-1]: 40 }), hook.url, undefined, format).look();
  const [ofAll, ofKey, , slack] = hook.received.map(({ body }) => body);
  const summary = "acme/k1: $40.00 spent, about $1.00 is usual, in the hour from 23:00 UTC";
  expect(ofAll).toMatchObject({ version: "4", status: "firing", groupKey: "spend all 2026-02-15T23" });
  expect(ofKey!.commonLabels).toEqual({ alertname: "spend", tenant: "acme", key: "k1" });
  const startsAt = new Date(NOW).toISOString();
  const fingerprint = expect.stringMatching(/^[0-9a-f]{16}$/);
  expect(ofKey!.alerts).toMatchObject([
    { status: "firing", annotations: { summary, value: "40" }, startsAt, fingerprint },
  ]);
  expect(slack).toEqual({ text: summary });
});

describe("an alert on an instance", () => {
  const down = { metric: "instance_down", model: "m", instance: "m-0", text: "m-0 of m is down" };
  const MINUTE = 60_000;

  async function judged(format: WebhookFormat = "alertmanager") {
    const hook = await receiver();
    const time = { now: NOW };
    const alerts = watch(ledger({}), hook.url, time, format);
    const judge = async (bad: readonly (typeof down)[], isUnsure = false) => {
      alerts.judgeNow(bad, () => isUnsure);
      await alerts.look();
      return hook.received.splice(0).map(({ body }) => body);
    };
    return { hook, time, alerts, judge };
  }

  test("fires once, is repeated after the cool-down, and is resolved once under the same fingerprint", async () => {
    const { time, judge } = await judged();
    const [fired] = await judge([down]);
    expect(fired).toMatchObject({ status: "firing", groupKey: "instance_down m-0" });
    time.now += MINUTE;
    expect(await judge([down])).toEqual([]);
    time.now += 6 * HOUR_MS;
    expect(await judge([down])).toMatchObject([{ status: "firing", groupKey: "instance_down m-0" }]);
    expect(await judge([], true)).toEqual([]);
    const resolved = await judge([]);
    const endsAt = new Date(time.now).toISOString();
    expect(resolved).toMatchObject([{ status: "resolved", alerts: [{ status: "resolved", endsAt }] }]);
    const fingerprint = (body: unknown) => (body as { alerts: { fingerprint: string }[] }).alerts[0]!.fingerprint;
    expect(fingerprint(resolved[0])).toBe(fingerprint(fired));
    time.now += 6 * MINUTE;
    expect(await judge([])).toEqual([]);
    // It is news again, long before the cool-down is over.
    expect(await judge([down])).toMatchObject([{ status: "firing" }]);
  });

  test("is not news where it ended a moment ago, and each instance has its own", async () => {
    const { time, judge } = await judged("slack");
    await judge([down]);
    expect(await judge([])).toEqual([{ text: "Resolved: m-0 of m is down" }]);
    time.now += MINUTE;
    expect(await judge([down, { ...down, instance: "m-1", text: "m-1" }])).toEqual([{ text: "m-1" }]);
  });

  test("calls nobody in Slack by its name", async () => {
    const { judge } = await judged("slack");
    const text = "a&b of <!channel> is down";
    expect(await judge([{ ...down, text }])).toEqual([{ text: "a&amp;b of &lt;!channel&gt; is down" }]);
  });

  test("that a silence fits is neither sent nor resolved", async () => {
    const { alerts, judge } = await judged();
    const matcher = { metric: "instance_down" };
    alerts.store.silences.add({ matcher, startsMs: NOW, endsMs: NOW + HOUR_MS, comment: "move", author: "" }, NOW);
    expect([await judge([down]), await judge([])]).toEqual([[], []]);
    expect(alerts.store.page(9, 9)).toMatchObject([{ resolvedMs: NOW, deliveredMs: null }]);
  });

  test("that ends while its beginning is being sent is resolved after it", async () => {
    const { alerts } = await judged();
    alerts.store.add({ ...down, id: "1", foundMs: 1, hourMs: 0, tenant: "", key: "", value: 1, expected: 0 }, 0, 1);
    const [sent] = alerts.store.due(0, 1, 9);
    alerts.store.resolve(sent!, 2, 1);
    alerts.store.deliveries.delivered(sent!, 0, 3);
    expect(alerts.store.due(0, 4, 9)).toMatchObject([{ resolvedMs: 2 }]);
  });
});

test("what is sent is signed, with its time", async () => {
  const hook = await receiver();
  const secret = new Secret("s3cret");
  await watch(ledger({ [-1]: 40 }), hook.url, undefined, "slack", secret).look();
  const { headers, body } = hook.received[0]!;
  const seconds = String(Math.floor(NOW / 1000));
  expect(headers["x-millrace-timestamp"]).toBe(seconds);
  const digest = createHmac("sha256", "s3cret")
    .update(`${seconds}.${JSON.stringify(body)}`)
    .digest("hex");
  expect(headers["x-millrace-signature"]).toBe(`sha256=${digest}`);
});

describe("silences", () => {
  const ends = new Date(NOW + 3 * HOUR_MS).toISOString();

  function silenced(url: string, time: { now: number }) {
    const alerts = watch(ledger({ [-1]: 40 }), url, time);
    const app = createAlertsApp(alerts.store, () => time.now).onError(({ message }, c) => c.text(message, 400));
    const ask = async (path: string, method = "GET", body?: object) => {
      const answer = await app.request(path, { method, ...(body && { body: JSON.stringify(body) }) });
      const text = await answer.text();
      return { status: answer.status, text, json: (answer.ok ? JSON.parse(text) : {}) as Record<string, unknown> };
    };
    const silence = (body: object) => ask("/alerts/silences", "POST", { ends, comment: "load test", ...body });
    return { alerts, ask, silence };
  }

  test("keep the alerts that fit from the webhook, and list them", async () => {
    const hook = await receiver();
    const { alerts, ask, silence } = silenced(hook.url, { now: NOW });
    const { status, json } = await silence({ tenant: "acme", metric: "spend" });
    expect([status, json]).toMatchObject([201, { state: "active", tenant: "acme", metric: "spend", ends }]);
    await silence({ tenant: "other" });
    await alerts.look();
    expect(hook.received.map(({ body }) => body.tenant)).toEqual([""]);
    const { json: list } = await ask("/alerts");
    expect(list.data).toMatchObject([{ tenant: "acme", delivered: null, silence: json.id }, { silence: null }]);
  });

  test("take an alert back that waits for a webhook that fails", async () => {
    const hook = await receiver();
    hook.status = 500;
    const time = { now: NOW };
    const { alerts, silence } = silenced(hook.url, time);
    await alerts.look();
    await silence({ metric: "spend" });
    time.now += HOUR_MS;
    await alerts.look();
    expect(hook.received).toHaveLength(2);
  });

  test("begin and end at their times, or when they are ended", async () => {
    const hook = await receiver();
    const time = { now: NOW };
    const { alerts, ask, silence } = silenced(hook.url, time);
    await silence({ metric: "spend", starts: new Date(NOW + HOUR_MS).toISOString() });
    const { json } = await silence({ metric: "spend" });
    const states = async () =>
      ((await ask("/alerts/silences")).json.data as { state: string }[]).map(({ state }) => state);
    expect((await states()).sort()).toEqual(["active", "pending"]);
    expect(await ask(`/alerts/silences/${json.id}`, "DELETE")).toMatchObject({ status: 200, json: { ended: true } });
    expect((await states()).sort()).toEqual(["ended", "pending"]);
    await alerts.look();
    expect(hook.received).toHaveLength(2);
    time.now += 4 * HOUR_MS;
    expect(await states()).toEqual(["ended", "ended"]);
    time.now += 31 * 24 * HOUR_MS;
    await silence({ metric: "spend", ends: new Date(time.now + 1).toISOString() });
    expect(await states()).toHaveLength(1);
  });

  test("that fit everything, that are over, and unknown ones are refused", async () => {
    const { ask, silence } = silenced("http://127.0.0.1:1", { now: NOW });
    const refusal = async (body: object) => (await silence(body)).text;
    expect(await refusal({})).toMatch(/at least one of metric, tenant, key and model/);
    expect(await refusal({ metric: "spend", ends: "tomorrow" })).toMatch(/ends: /);
    expect(await refusal({ metric: "spend", ends: "2020-01-01T00:00:00Z" })).toMatch(/ends to be after now/);
    expect(await refusal({ metric: "spend", comment: " " })).toMatch(/comment: /);
    expect(await refusal({ metric: "spend", what: 1 })).toMatch(/what/);
    expect((await ask("/alerts/silences/none", "DELETE")).text).toMatch(/id of a silence, got "none"/);
  });
});

describe("several webhooks", () => {
  function both(targets: readonly WebhookTarget[], time = { now: NOW }) {
    const options = { logger: pino({ level: "silent" }), coolDownMs: HOUR_MS, minCost: 1, minRequests: 20 };
    const alerts = new AlertWatch({
      ...options,
      database: ledger({ [-1]: 40 }),
      webhooks: targets,
      epochMs: () => time.now,
    });
    closing.push(() => alerts.close());
    return alerts;
  }

  test("get each alert once, in their own form and with their own secret, whichever of them fails", async () => {
    const [failing, good] = [await receiver(), await receiver()];
    failing.status = 500;
    const time = { now: NOW };
    const targets = [
      { url: failing.url, format: "slack", secret: new Secret("one") },
      { url: good.url, format: "alertmanager" },
    ] as const;
    const alerts = both(targets, time);
    await alerts.look();
    expect(failing.received.map(({ body }) => Object.keys(body))).toEqual([["text"], ["text"]]);
    expect(good.received.map(({ body }) => body.version)).toEqual(["4", "4"]);
    expect(good.received[0]!.headers["x-millrace-signature"]).toBeUndefined();
    expect(failing.received[0]!.headers["x-millrace-signature"]).toMatch(/^sha256=/);
    expect(alerts.store.page(9, 9)).toMatchObject([{ deliveredMs: null }, { deliveredMs: null }]);
    failing.status = 200;
    time.now += 60_000;
    await alerts.look();
    expect([failing.received.length, good.received.length]).toEqual([4, 2]);
    expect(alerts.store.page(9, 9)).toMatchObject([{ tries: 2, deliveredMs: time.now }, { tries: 2 }]);
  });

  test("wait neither for one that does not answer, nor does the next search", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    closing.push(() => silent.close().closeAllConnections());
    const good = await receiver();
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const time = { now: NOW };
    const alerts = both(
      [
        { url, format: "millrace" },
        { url: good.url, format: "millrace" },
      ],
      time,
    );
    void alerts.look();
    await vi.waitFor(() => expect(good.received).toHaveLength(2));
    const down = { metric: "instance_down", model: "m", instance: "m-0", text: "m-0 of m is down" };
    alerts.judgeNow([down], () => false);
    await vi.waitFor(() => expect(good.received).toHaveLength(3));
  });
});

describe("a soft budget that is passed", () => {
  const startMs = NOW - (NOW % HOUR_MS);
  const passed = {
    kind: "team",
    id: "acme/search",
    window: "hour",
    startMs,
    endsMs: startMs + HOUR_MS,
    tenant: "acme",
    key: "",
    value: 4.5,
    expected: 4,
  };

  test("is told once in its window, and is resolved when the window ends", async () => {
    const hook = await receiver();
    const time = { now: NOW };
    const database = ledger({});
    const told = async (url = hook.url) => {
      const alerts = watch(database, url, time, "alertmanager");
      for (let i = 0; i < 3; i++) alerts.softBudget({ ...passed, value: 4.5 + i });
      // Another window of the same team has an alert of its own, and lasts longer.
      alerts.softBudget({ ...passed, window: "day", endsMs: NOW + 24 * HOUR_MS });
      await alerts.look();
      return hook.received.splice(0).map(({ body }) => body);
    };
    const fired = await told();
    const labels = { alertname: "soft_budget", tenant: "acme", budget: "team/acme/search/hour" };
    expect(fired.map(({ commonLabels }) => commonLabels)).toEqual([
      labels,
      { ...labels, budget: "team/acme/search/day" },
    ]);
    const summary = "team acme/search: $4.50 spent or reserved this hour, above the soft budget of $4.00";
    expect(fired[0]).toMatchObject({ status: "firing", commonAnnotations: { summary, value: "4.5", expected: "4" } });
    // A gateway that starts again meets the same budget.
    expect(await told()).toEqual([]);
    time.now = passed.endsMs;
    const [resolved, ...others] = await told();
    expect([resolved!.status, resolved!.commonLabels, others]).toEqual(["resolved", labels, []]);
    const fingerprint = (body: unknown) => (body as { alerts: { fingerprint: string }[] }).alerts[0]!.fingerprint;
    expect(fingerprint(resolved)).toBe(fingerprint(fired[0]));
    expect(fingerprint(fired[1])).not.toBe(fingerprint(fired[0]));
    expect(await told()).toEqual([]);
  });

  test("is kept from the webhook by a silence of its tenant", async () => {
    const hook = await receiver();
    const alerts = watch(ledger({}), hook.url);
    const silence = { matcher: { tenant: "acme" }, startsMs: NOW, endsMs: NOW + 1, comment: "known", author: "" };
    alerts.store.silences.add(silence, NOW);
    alerts.softBudget(passed);
    await alerts.look();
    expect(hook.received).toEqual([]);
    expect(alerts.store.page(9, 9)).toMatchObject([{ alert: { budget: "team/acme/search/hour" }, deliveredMs: null }]);
  });
});

test("a quiet ledger, and an empty one, give nothing", async () => {
  for (const database of [ledger({}), openDatabase(undefined)]) {
    createLedgerTables(database);
    const alerts = watch(database, undefined);
    await alerts.look();
    expect(alerts.store.page(100, 10)).toEqual([]);
  }
});

test("a table of an earlier version gets the later columns, once, and what was due stays due", () => {
  const database = openDatabase(undefined);
  database.exec(`CREATE TABLE alerts (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, found_ms INTEGER, hour_ms INTEGER, tenant TEXT, key TEXT,
    metric TEXT, value REAL, expected REAL, text TEXT, tries INTEGER, due_ms INTEGER, delivered_ms INTEGER);
    CREATE INDEX alerts_due ON alerts (due_ms) WHERE due_ms IS NOT NULL;
    INSERT INTO alerts VALUES (NULL, 'old', 1, 0, 'acme', 'k1', 'spend', 2, 1, 'dear', 0, NULL, NULL);
    INSERT INTO alerts VALUES (NULL, 'waits', 1, 0, 'acme', 'k1', 'spend', 2, 1, 'dear', 3, 5, NULL),
      (NULL, 'sent', 1, 0, 'acme', 'k1', 'spend', 2, 1, 'dear', 1, NULL, 4)`);
  const alert = { foundMs: 2, hourMs: 0, tenant: "acme", key: "", metric: "quality_length", value: 0.2, expected: 0.1 };
  for (const model of ["large", "small"]) {
    const store = new AlertStore(database);
    expect(store.add({ ...alert, id: model, model, text: model }, HOUR_MS, 0)).toBe(true);
    // The same of the same model waits for the cool-down.
    expect(store.add({ ...alert, id: `${model} again`, model, text: model }, HOUR_MS, 0)).toBe(false);
  }
  const stored = new AlertStore(database).page(100, 10).map(({ alert: { id, model } }) => [id, model]);
  expect(stored).toEqual([
    ["small", "small"],
    ["large", "large"],
    ["sent", ""],
    ["waits", ""],
    ["old", ""],
  ]);
  // The one webhook of that version is the first one now.
  const store = new AlertStore(database);
  expect(store.due(0, 5, 9)).toMatchObject([{ alert: { id: "waits" }, tries: 3 }]);
  expect(store.page(4, 1)).toMatchObject([{ alert: { id: "sent" }, tries: 1, deliveredMs: 4 }]);
});
