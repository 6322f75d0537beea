import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { chat } from "../../../test/helpers/cached-fleet.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { Idempotency } from "../../gateway/idempotency/idempotency.js";
import { parseConfig } from "../config/read-config.js";
import { Fleet } from "../fleet.js";

async function startFleet(folder: string): Promise<Fleet> {
  const engine = await startStandIn(answerJson(chat("Hi.")));
  onTestFinished(() => engine.die());
  const text = `
port: 0
data-folder: ${folder}
ledger: {}
models: [{ name: m, engine: openai, attach: [{ url: "${engine.url}" }] }]
`;
  const fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
  });
  await fleet.whenStarted();
  return fleet;
}

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-gateway-parts-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

async function ask({ url }: Fleet): Promise<number> {
  const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] });
  const headers = { "idempotency-key": "k" };
  return (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).status;
}

test("where no answers can be kept, requests with a key are answered without", async () => {
  const folder = makeFolder();
  // SQLite cannot open a folder.
  mkdirSync(join(folder, "cache.db"));
  const fleet = await startFleet(folder);
  const status = await ask(fleet);
  await fleet.close();
  expect(status).toBe(200);
});

test("a policy that cannot end as it should keeps no database from being closed", async () => {
  const folder = makeFolder();
  const fleet = await startFleet(folder);
  await ask(fleet);
  const logBytes = () => statSync(join(folder, "gateway.db-wal")).size;
  expect(logBytes()).toBeGreaterThan(0);
  const close = vi.spyOn(Idempotency.prototype, "close").mockRejectedValue(new Error("expected a disk, got none"));
  onTestFinished(() => close.mockRestore());
  await fleet.close();
  // The log is written back before the database closes.
  expect(logBytes()).toBe(0);
});
