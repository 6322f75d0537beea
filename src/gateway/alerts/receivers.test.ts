/** Alerts at several webhooks, and alerts on soft budgets. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { describe, expect, test, vi } from "vitest";
import { ledger, NOW, onEnd, receiver, watch } from "../../../test/helpers/alerting.js";
import { Secret } from "../../core/config-values.js";
import { HOUR_MS } from "../ledger/hour-sums.js";
import { AlertWatch } from "./alert-watch.js";
import type { WebhookTarget } from "./webhook.js";

describe("several webhooks", () => {
  function both(targets: readonly WebhookTarget[], time = { now: NOW }) {
    const options = { logger: pino({ level: "silent" }), coolDownMs: HOUR_MS, minCost: 1, minRequests: 20 };
    const alerts = new AlertWatch({
      ...options,
      database: ledger({ [-1]: 40 }),
      webhooks: targets,
      epochMs: () => time.now,
    });
    onEnd(() => alerts.close());
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
    onEnd(() => silent.close().closeAllConnections());
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
    await vi.waitFor(() => expect(good.received).toHaveLength(2), { timeout: 20_000 });
    const down = { metric: "instance_down", model: "m", instance: "m-0", text: "m-0 of m is down" };
    alerts.judgeNow([down], () => false);
    await vi.waitFor(() => expect(good.received).toHaveLength(3), { timeout: 20_000 });
  });
});

describe("a soft budget that is passed", () => {
  const startMs = NOW - (NOW % HOUR_MS);
  const passed = {
    kind: "team",
    id: "acme/search",
    unit: "money",
    window: "hour",
    budget: "team/acme/search/hour",
    startMs,
    endsMs: startMs + HOUR_MS,
    tenant: "acme",
    key: "",
    value: 4.5,
    expected: 4,
  } as const;

  test("is told once in its window, and is resolved when the window ends", async () => {
    const hook = await receiver();
    const time = { now: NOW };
    const database = ledger({});
    const told = async (url = hook.url) => {
      const alerts = watch(database, url, time, "alertmanager");
      for (let i = 0; i < 3; i++) alerts.softBudget({ ...passed, value: 4.5 + i });
      // Another window of the same team has an alert of its own, and lasts longer.
      alerts.softBudget({ ...passed, window: "day", budget: "team/acme/search/day", endsMs: NOW + 24 * HOUR_MS });
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
    // A restarted gateway meets the same budget.
    expect(await told()).toEqual([]);
    time.now = passed.endsMs;
    const [resolved, ...others] = await told();
    expect([resolved!.status, resolved!.commonLabels, others]).toEqual(["resolved", labels, []]);
    const fingerprint = (body: unknown) => (body as { alerts: { fingerprint: string }[] }).alerts[0]!.fingerprint;
    expect(fingerprint(resolved)).toBe(fingerprint(fired[0]));
    expect(fingerprint(fired[1])).not.toBe(fingerprint(fired[0]));
    expect(await told()).toEqual([]);
  });

  test("of tokens is told in tokens, and a total's, once for each amount, never ends", async () => {
    const hook = await receiver();
    const time = { now: NOW };
    const alerts = watch(ledger({}), hook.url, time);
    const budget = "team/acme/search/total-tokens";
    const total = { ...passed, unit: "tokens", window: "total", budget, startMs: 0, endsMs: undefined } as const;
    for (const expected of [4_000, 4_000, 8_000]) alerts.softBudget({ ...total, value: 9_000, expected });
    time.now += 10_000 * HOUR_MS;
    await alerts.look();
    const text = "team acme/search: 9000 tokens spent or reserved in total, above the soft budget of";
    expect(hook.received.map(({ body }) => body)).toMatchObject([
      { budget, text: `${text} 4000 tokens`, resolved: null },
      { budget, text: `${text} 8000 tokens`, resolved: null },
    ]);
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
