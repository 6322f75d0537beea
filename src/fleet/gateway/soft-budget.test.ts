/**
 * Soft budgets through the complete gateway: its webhooks' messages when a key, team or organisation passes its budget.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { parseConfig } from "../config/read-config.js";
import { Fleet } from "../fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-soft-"));
const usage = { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 };
const received: Record<"/own" | "/slack", Json[]> = { "/own": [], "/slack": [] };
let engine: Awaited<ReturnType<typeof startStandIn>>;
let hooks: Awaited<ReturnType<typeof startStandIn>>;
let fleet: Fleet;

beforeAll(async () => {
  engine = await startStandIn(answerJson({ choices: [{ message: { content: "hi" } }], usage }));
  hooks = await startStandIn(({ path, body }, outgoing) => {
    received[path as keyof typeof received].push(body as Json);
    outgoing.end();
  });
  const text = `
port: 0
data-folder: ${folder}
admin-key: boss
ledger: {}
alerts: { webhook: [{ url: "${hooks.url}/own" }, { url: "${hooks.url}/slack", format: slack }] }
orgs: { acme: { soft-budget: { month: "0.002" } } }
teams: { acme/search: { soft-budget: { day: "0.000000001" } } }
api-keys: [{ tenant: shop, team: acme/search, key: sk-shop, limits: { soft-budget: { hour: "0.000000001" } } }]
models: [{ name: m, engine: openai, price: { input: 1, output: 1 }, attach: [{ url: "${engine.url}" }] }]
`;
  fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
  });
  await fleet.whenStarted();
});
afterAll(async () => {
  await fleet?.close();
  await Promise.all([engine?.die(), hooks?.die()]);
  rmSync(folder, { recursive: true, force: true });
});

const ask = async (): Promise<void> => {
  const answer = await fetch(`${fleet.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer sk-shop" },
    body: JSON.stringify({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "Hi" }] }),
  });
  expect(answer.status).toBe(200);
};
const SOON = { timeout: 20_000 };
const budgets = (): string[] => received["/own"].map(({ budget }) => String(budget)).sort();

test("each passed budget is one alert for each webhook, and the organisation's only when its own limit is passed", async () => {
  await ask();
  const narrow = ["key/shop/hour", "team/acme/search/day"];
  await vi.waitFor(() => expect([budgets(), received["/slack"].length]).toEqual([narrow, 2]), SOON);
  const ofKey = received["/own"].find(({ budget }) => budget === narrow[0]);
  expect(ofKey).toMatchObject({ metric: "soft_budget", tenant: "shop", key: "", expected: 1e-9, resolved: null });
  expect(received["/slack"].map(({ text }) => text).join()).toMatch(
    /key shop: \$0\.\d+ spent or reserved this hour, above the soft budget of \$0\.0000000010/,
  );
  for (let i = 0; i < 3; i++) await ask();
  await vi.waitFor(() => expect(budgets()).toEqual([narrow[0], "org/acme/month", narrow[1]]), SOON);
  const list = await fetch(`${fleet.url}/admin/alerts`, { headers: { authorization: "Bearer boss" } });
  const { data } = (await list.json()) as { data: Json[] };
  expect(data.map(({ budget }) => budget).sort()).toEqual(budgets());
  // Events are public, so they name no tenant.
  const past = await (await fetch(`${fleet.url}/watch/history`)).text();
  expect(past).toContain('"text":"soft_budget"');
  expect(past).not.toMatch(/shop|acme/);
});
