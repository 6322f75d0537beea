/** The command against the ledger of a gateway without instances. */

import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { adminHandler } from "../../fleet/admin.js";
import { createLedgerApp } from "../../gateway/ledger/ledger-app.js";
import type { AttemptRow, RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { LedgerStore } from "../../gateway/ledger/ledger-store.js";
import { openDatabase } from "../../gateway/store/database.js";
import { GroupCommit } from "../../gateway/store/group-commit.js";
import { DAYS_PER_MONTH } from "../../plan/replacement.js";
import { recordedMonth } from "../plan/replacement-cost.js";
import { AdminClient } from "../process/admin-client.js";

let server: Server;
let url: string;
let folder: string;

const attempt = (model: string, cost: bigint | undefined): AttemptRow => ({
  instance: "i",
  engine: "openai",
  model,
  startMs: 0,
  firstByteMs: 1,
  totalMs: 2,
  status: 200,
  outcome: "answered",
  counts: { fresh: 100, cacheRead: 50, cacheWrite: 0, output: 20, reasoning: 0 },
  cost,
  price: "p",
});
const FIRST_HOUR = "2026-11-02T10:00Z";

const row = (seq: number, tenant: string, model: string, cost: bigint | undefined): RequestRow => ({
  seq,
  id: `r${seq}`,
  beganMs: Date.parse(FIRST_HOUR),
  tenant,
  team: "",
  key: "",
  path: "/v1/completions",
  asked: model,
  served: model,
  isStream: false,
  outcome: "answered",
  status: 200,
  error: "",
  firstByteMs: 1,
  totalMs: 2,
  saved: 0n,
  savedBy: "",
  notes: "",
  maxTokens: undefined,
  numAnswers: 1,
  endUser: "",
  attempts: [attempt(model, cost)],
});

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "millrace-spend-"));
  const database = openDatabase(undefined);
  const commits = new GroupCommit(database);
  const store = new LedgerStore(database, commits, pino({ level: "silent" }));
  store.close(row(1, "search", "large", 1_500_000_000n));
  store.close(row(2, "shop", "large", 1n));
  store.close(row(3, "shop", "small", undefined));
  commits.flush();
  const handle = adminHandler(adminTarget([createLedgerApp(database)]));
  server = createServer((incoming, outgoing) => void handle(incoming, outgoing, "r"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.close();
  server.closeAllConnections();
  await rm(folder, { recursive: true, force: true });
});

const run = (...args: readonly string[]) => runMain("spend", ...args, "--url", url, "--admin-key", "boss");

test("costs are shown by group, the largest first, and what has no price is said", async () => {
  const { stdout } = await run("--by", "model");
  expect(stdout).toBe(`model  requests  prompt  cached  output  cost $       saved $
large  2         300     100     40      1.500000001  0.000000000
small  1         150     50      20      0.000000000  0.000000000
1 answers of models without a price are not in the cost
`);
  const { stdout: json } = await run("--by", "tenant,day", "--tenant", "shop", "--json");
  expect(JSON.parse(json).data).toMatchObject([
    { tenant: "shop", day: "2026-11-02", requests: 2, cost: "0.000000001" },
  ]);
  expect((await run("--from", "2026-11-03")).stdout).toBe("no requests\n");
});

test("every request is written to a file", async () => {
  const file = join(folder, "ledger.csv");
  expect((await run("--export", file)).stdout).toBe(`${file} written\n`);
  expect(readFileSync(file, "utf8").trim().split("\r\n")).toHaveLength(4);
});

test("a month of one model is what a student that replaces it saves", async () => {
  const client = new AdminClient({ url, adminKey: "boss" });
  const atMs = Date.parse("2026-11-20T00:00Z");
  const means = { inputTokens: 150, outputTokens: 20 };
  // The ledger is younger than a month, so its days stand for all days.
  const months = (atMs - Date.parse(FIRST_HOUR)) / (DAYS_PER_MONTH * 86_400_000);
  const usd = expect.closeTo(1.500000001 / months, 6);
  const monthly = (requests: number) => ({ requests: expect.closeTo(requests / months, 6), ...means });
  expect(await recordedMonth(client, "large", atMs)).toEqual({ ...monthly(2), usd });
  expect(await recordedMonth(client, "small", atMs)).toEqual({ ...monthly(1), usd: undefined });
  expect(await recordedMonth(client, "large", Date.parse(FIRST_HOUR) + 23 * 3_600_000)).toBeUndefined();
  expect(await recordedMonth(client, "large", Date.parse("2027-11-20T00:00Z"))).toBeUndefined();
});

test("mistakes are said", async () => {
  expect((await run("--by", "colour")).stderr).toContain("--by");
  expect((await run("--export", "ledger.xls")).stderr).toContain(".parquet");
  expect((await run("--from", "yesterday")).stderr).toMatch(/^error \[invalid_parameter\]: .*from/);
  const file = join(folder, "refused.csv");
  expect((await run("--export", file, "--from", "yesterday")).stderr).toMatch(/^error \[invalid_parameter\]: .*from/);
});
