/** Figures by tenant of a complete gateway: the ledger's, for its operators, while the gateway has the tenant. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../../test/helpers/whole-gateway.js";
import { parseMetrics } from "../../observe/live/metrics-text.js";
import type { Fleet } from "../fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-tenant-metrics-"));
let fleet: Fleet;
let engine: Awaited<ReturnType<typeof startStandIn>>;

beforeAll(async () => {
  const usage = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 };
  engine = await startStandIn(
    answerJson({
      choices: [{ message: { content: "hi" }, finish_reason: "stop" }],
      usage,
      data: [{ index: 0, embedding: [1, 0] }],
    }),
  );
  fleet = await startWholeGateway(
    folder,
    engine.url,
    `
operators:
  - { name: vera, role: viewer, key: k-viewer }
  - { name: anna, role: admin, key: k-admin }
prices:
  - { model: m, input: 1, output: 4 }
api-keys:
  - { tenant: search, key: sk-search }`,
  );
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  rmSync(folder, { recursive: true });
});

const ask = async (method: string, path: string, key: string, body?: object): Promise<Response> =>
  await fetch(`${fleet.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

async function chat(key: string, text: string): Promise<number> {
  const body = { model: "m", messages: [{ role: "user", content: text }], temperature: 0 };
  const answer = await ask("POST", "/v1/chat/completions", key, body);
  await answer.arrayBuffer();
  return answer.status;
}

/** Sums by tenant, over all other labels. */
async function metric(name: string): Promise<Readonly<Record<string, number>>> {
  const answer = await ask("GET", "/metrics/tenants", "k-viewer");
  expect([answer.status, answer.headers.get("content-type")]).toEqual([
    200,
    "text/plain; version=0.0.4; charset=utf-8",
  ]);
  const sums: Record<string, number> = {};
  for (const sample of parseMetrics(await answer.text())) {
    const { tenant = "" } = sample.labels;
    if (sample.name === `millrace_tenant:${name}`) sums[tenant] = (sums[tenant] ?? 0) + sample.value;
  }
  return sums;
}

test("the figures are the ledger's, for operators, and those of a tenant that is deleted go", async () => {
  await ask("POST", "/admin/orgs", "k-admin", { id: "acme" });
  const made = await ask("POST", "/admin/keys", "k-admin", { org: "acme", name: "laptop" });
  const { key } = (await made.json()) as { key: string };
  for (const text of ["one", "two", "three"]) expect(await chat("sk-search", text)).toBe(200);
  expect(await chat(key, "four")).toBe(200);
  // A refused request counts, without a cost.
  expect(
    (await ask("POST", "/v1/chat/completions", key, { model: "m", messages: [], temperature: "x" })).status,
  ).toBeLessThan(500);

  // The ledger writes the row after the answer.
  await expect.poll(() => metric("requests_total")).toMatchObject({ search: 3, "org:acme": 2 });
  const spent = async (field: "cost" | "saved" | "output"): Promise<Readonly<Record<string, number>>> => {
    const answer = await ask("GET", "/admin/ledger/spend?group_by=tenant", "k-viewer");
    const { data } = (await answer.json()) as {
      data: { tenant: string; cost: string; saved: string; output: number }[];
    };
    return Object.fromEntries(data.map((row) => [row.tenant, Number(row[field])]));
  };
  for (const [name, field] of [
    ["cost_dollars_total", "cost"],
    ["saved_dollars_total", "saved"],
    ["generation_tokens_total", "output"],
  ] as const) {
    // The ledger is still writing the cache's own requests.
    const isEqual = async () => isDeepStrictEqual(await metric(name), await spent(field));
    await expect.poll(isEqual, { timeout: 10_000 }).toBe(true);
  }
  expect((await spent("cost")).search).toBeCloseTo(3 * 0.00104, 9);
  // The money of all tenants equals that of all models.
  const total = Object.values(await spent("cost")).reduce((sum, cost) => sum + cost, 0);
  const byModel = parseMetrics(await (await ask("GET", "/metrics/tenants", "k-viewer")).text());
  const costs = byModel.filter((sample) => sample.name === "millrace_model:cost_dollars_total");
  expect(costs.reduce((sum, { value }) => sum + value, 0)).toBeCloseTo(total, 9);
  expect(costs.find(({ labels }) => labels.model === "m")?.value).toBeGreaterThanOrEqual(0.00416 - 1e-9);

  for (const other of [key, "sk-search", "none"]) {
    const refused = await ask("GET", "/metrics/tenants", other);
    expect([refused.status, await refused.text()]).toEqual([401, expect.not.stringContaining("acme")]);
    const open = await ask("GET", "/metrics", other);
    const telling = (await open.text())
      .split("\n")
      .filter((line) => /^[^#].*(acme|"search"|tenant|dollars)/.test(line));
    expect([open.status, telling]).toEqual([200, []]);
  }
  expect((await ask("DELETE", "/admin/orgs/acme", "k-admin")).status).toBeLessThan(300);
  const tenants = async () => Object.keys(await metric("cost_dollars_total"));
  await expect.poll(tenants, { timeout: 5000 }).not.toContain("org:acme");
  expect(await tenants()).toEqual(["search", "(semantic-cache)"]);
});
