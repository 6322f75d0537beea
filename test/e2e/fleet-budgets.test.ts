/**
 * Budgets of a real fleet: what is spent equals the ledger, to the nano-dollar and the token, across kills; a stream
 * ends where its budget does.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseDollars } from "../../src/gateway/money.js";
import { FleetProcess, until } from "../helpers/fleet-process.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-budgets-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const KEY = "shop-secret";
const config = (day: string) => ({
  "data-folder": folder,
  ledger: {},
  teams: { "acme/web": { budget: { month: "1000" } } },
  "api-keys": [
    { tenant: "shop", key: KEY, team: "acme/web", limits: { budget: { day }, "requests-per-minute": 5000 } },
  ],
  models: [{ name: "mill-base", model: "models/mill-base.gguf", price: { input: "1.5", output: "6" } }],
});

interface Shown {
  readonly scopes: { readonly id: string; readonly budgets: Record<string, { spent: string; reserved: string }> }[];
}

async function budgetsOf({ url }: FleetProcess): Promise<{ readonly spent: string; readonly reserved: string }[]> {
  const response = await fetch(`${url}/v1/key`, { headers: { authorization: `Bearer ${KEY}` } });
  const { scopes } = (await response.json()) as Shown;
  return scopes.flatMap(({ budgets }) => Object.values(budgets));
}

/** What was spent, when nothing is reserved any more: the same in all scopes. */
async function spent(fleet: FleetProcess): Promise<bigint> {
  await until(async () => (await budgetsOf(fleet)).every(({ reserved }) => reserved === "0"), "nothing to be reserved");
  const all = (await budgetsOf(fleet)).map((each) => each.spent);
  expect(new Set(all).size).toBe(1);
  return parseDollars(all[0]!)!;
}

async function ledgerCost(fleet: FleetProcess): Promise<bigint> {
  const { data } = (await fleet.admin("GET", "/admin/ledger/spend")) as { data: { cost: string }[] };
  return parseDollars(data[0]?.cost ?? "0")!;
}

const clientOf = ({ url }: FleetProcess) => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });

/** Streams, whole answers, and streams that the client leaves, all at once. */
async function load(fleet: FleetProcess, count: number, tokens = 30): Promise<void> {
  const client = clientOf(fleet);
  const ask = async (i: number) => {
    const terms = { model: "mill-base", prompt: `Once ${i}`, seed: i, max_tokens: tokens, min_tokens: tokens };
    if (i % 3 === 0) return void (await client.completions.create(terms));
    const stream = await client.completions.create({ ...terms, stream: true });
    let received = 0;
    for await (const _ of stream) if (i % 3 === 1 && ++received === 5) break;
  };
  await Promise.allSettled(Array.from({ length: count }, (_, i) => ask(i)));
}

test("what is spent is what the ledger has, across a kill", async () => {
  {
    await using fleet = await FleetProcess.start(config("100"));
    await load(fleet, 24);
    const cost = await spent(fleet);
    expect(cost).toBeGreaterThan(0n);
    await until(async () => (await ledgerCost(fleet)) === cost, `the ledger to have ${cost}`);
    const running = load(fleet, 24, 400);
    await until(async () => Number((await budgetsOf(fleet))[0]!.reserved) > 0, "something to be reserved");
    process.kill(fleet.pid, "SIGKILL");
    await running;
  }
  await using fleet = await FleetProcess.start(config("100"));
  const cost = await spent(fleet);
  await until(async () => (await ledgerCost(fleet)) === cost, `the ledger to have ${cost}`);
  await load(fleet, 6);
  const more = await spent(fleet);
  expect(more).toBeGreaterThan(cost);
  await until(async () => (await ledgerCost(fleet)) === more, `the ledger to have ${more}`);
}, 120_000);

test("a stream ends where its budget does", async () => {
  // 6 microdollars a token: the prompt, and about 300 tokens.
  await using fleet = await FleetProcess.start(config("0.002"));
  const terms = { model: "mill-base", prompt: "Once", max_tokens: 900, min_tokens: 900 };
  const stream = await clientOf(fleet).completions.create({ ...terms, stream: true });
  const reading = async () => {
    for await (const _ of stream);
  };
  await expect(reading()).rejects.toMatchObject({ code: "budget_exceeded" });
  const cost = await spent(fleet);
  expect(cost).toBeLessThanOrEqual(2_000_000n);
  // A step may bring several tokens, of which the budget pays all or none.
  expect(cost).toBeGreaterThan(1_800_000n);
  const refused = clientOf(fleet).completions.create({ ...terms, stream: true });
  await expect(refused).rejects.toMatchObject({ status: 429, code: "budget_exceeded" });
}, 120_000);

test("a budget of tokens needs no price, ends a stream, and outlasts a kill", async () => {
  const limits = { "token-budget": { day: 100_000, total: 500 } };
  const file = {
    "data-folder": folder,
    ledger: {},
    teams: { "acme/web": limits },
    "api-keys": [{ tenant: "shop", key: KEY, team: "acme/web" }],
    models: [{ name: "mill-base", model: "models/mill-base.gguf" }],
  };
  interface Use {
    readonly spent: number;
    readonly reserved: number;
    readonly ends_at: number | null;
  }
  const used = async (fleet: FleetProcess): Promise<Readonly<Record<"day" | "total", Use>>> => {
    const response = await fetch(`${fleet.url}/v1/key`, { headers: { authorization: `Bearer ${KEY}` } });
    const { scopes } = (await response.json()) as { scopes: { token_budgets: Record<"day" | "total", Use> }[] };
    return scopes[0]!.token_budgets;
  };
  const terms = { model: "mill-base", prompt: "Once", max_tokens: 900, min_tokens: 900 };
  let total: Use;
  {
    await using fleet = await FleetProcess.start(file);
    const stream = await clientOf(fleet).completions.create({ ...terms, stream: true });
    const reading = async () => {
      for await (const _ of stream);
    };
    await expect(reading()).rejects.toMatchObject({ code: "budget_exceeded" });
    await until(async () => (await used(fleet)).total.reserved === 0, "nothing to be reserved");
    ({ total } = await used(fleet));
    expect(total.spent).toBeGreaterThan(450);
    expect(total.spent).toBeLessThanOrEqual(500);
    expect(total.ends_at).toBeNull();
    expect((await used(fleet)).day.spent).toBe(total.spent);
    const { data } = (await fleet.admin("GET", "/admin/ledger/spend")) as { data: Record<string, number>[] };
    expect(data[0]!.fresh! + data[0]!.cache_read! + data[0]!.output!).toBe(total.spent);
    process.kill(fleet.pid, "SIGKILL");
  }
  await using fleet = await FleetProcess.start(file);
  expect((await used(fleet)).total).toEqual(total);
  const refused = clientOf(fleet).completions.create({ ...terms, stream: true });
  await expect(refused).rejects.toMatchObject({ status: 429, code: "budget_exceeded" });
}, 120_000);
