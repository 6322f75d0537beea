import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { ledger, NOW, receiver, watch } from "../../../test/helpers/alerting.js";
import { Secret } from "../../core/config-values.js";
import { HOUR_MS } from "../ledger/hour-sums.js";
import { createLedgerTables } from "../ledger/ledger-tables.js";
import { openDatabase } from "../store/database.js";
import { AlertStore } from "./alert-store.js";
import { createAlertsApp } from "./alerts-app.js";
import type { WebhookFormat } from "./webhook.js";

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

test("open alerts are those on instances and soft budgets that have not ended", async () => {
  const { store } = watch(ledger({}), undefined);
  const base = {
    foundMs: 1,
    hourMs: 0,
    tenant: "",
    key: "",
    model: "",
    metric: "spend",
    value: 1,
    expected: 0,
    text: "",
  };
  store.add({ ...base, id: "hour" }, 0, 1);
  store.add({ ...base, id: "down", metric: "instance_down", instance: "m-0" }, 0, 1);
  store.add({ ...base, id: "budget", metric: "soft_budget", budget: "key/k/day", endsMs: 9 }, 0, 1);
  const app = createAlertsApp(store, () => NOW);
  const ids = async (query: string) => {
    const { data } = (await (await app.request(`/alerts${query}`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };
  expect(await ids("?open=true")).toEqual(["budget", "down"]);
  expect(await ids("?open=true&cursor=3")).toEqual(["down"]);
  store.resolve(store.open()[0]!, 5, 1);
  expect(await ids("?open=true")).toEqual(["budget"]);
  expect(await ids("")).toEqual(["budget", "down", "hour"]);
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
    // A repetition for the same model waits for the cool-down.
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
  // That version's only webhook is now the first one.
  const store = new AlertStore(database);
  expect(store.due(0, 5, 9)).toMatchObject([{ alert: { id: "waits" }, tries: 3 }]);
  expect(store.page(4, 1)).toMatchObject([{ alert: { id: "sent" }, tries: 1, deliveredMs: 4 }]);
});
