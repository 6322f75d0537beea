/**
 * A gateway that is killed while a paid API has its batch: before it learns that the batch is there, while the batch
 * runs, and while its results come. No line is handed over twice, and each has one result and one row in the ledger.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { afterAll, expect, test } from "vitest";
import { FleetProcess, until } from "../helpers/fleet-process.js";
import type { Json } from "../helpers/json.js";
import { OpenaiBatches } from "../helpers/providers/openai-batches.js";
import { startOpenaiServer } from "../helpers/providers/openai-server.js";

const NUM_LINES = 300;
const KEY = "sk-test-0123456789abcdef";

const folder = mkdtempSync(join(tmpdir(), "millrace-provider-batches-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const line = (i: number) =>
  JSON.stringify({
    custom_id: `${i}`,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "gpt", messages: [{ role: "user", content: `Say hello to ${i}` }], max_tokens: 20 },
  });

test("kill -9 hands no line over twice, and loses none", { timeout: 180_000 }, async () => {
  const batches = new OpenaiBatches();
  await using provider = await startOpenaiServer({ keys: [KEY], batches });
  const config = {
    "data-folder": folder,
    ledger: {},
    "api-keys": [{ tenant: "shop", key: "shop-secret", limits: { budget: { day: "5" } } }],
    "managed-keys": true,
    models: [
      {
        name: "gpt",
        engine: "openai",
        provider: { "batch-endpoint": true },
        price: { input: "1", output: "10" },
        attach: [{ url: `${provider.url}/v1`, "api-key": KEY }],
      },
    ],
  };
  const clientOf = ({ url }: FleetProcess) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "shop-secret", maxRetries: 10 });
  /** Runs a gateway until it is so, and kills it. */
  const killWhen = async (isSo: (fleet: FleetProcess) => boolean | Promise<boolean>, what: string) => {
    await using fleet = await FleetProcess.start(config);
    await until(() => isSo(fleet), what);
    process.kill(fleet.pid, "SIGKILL");
    await until(() => !fleet.isAlive, "the process to be gone");
  };

  let id = "";
  batches.nextLost = "silent";
  batches.isHeld = true;
  await killWhen(async (fleet) => {
    if (id === "") {
      const lines = Array.from({ length: NUM_LINES }, (_, i) => line(i));
      const openai = clientOf(fleet);
      const file = await openai.files.create({
        file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
        purpose: "batch",
      });
      const endpoint = "/v1/chat/completions";
      ({ id } = await openai.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" }));
    }
    return batches.batches.length === 1;
  }, "the provider to have the batch");
  await killWhen(() => batches.batches[0]!.status === "in_progress", "the batch to be found again");
  batches.isHeld = false;
  await killWhen(async (fleet) => {
    const { request_counts: counts } = await clientOf(fleet).batches.retrieve(id);
    return counts!.completed > 0;
  }, "the first results");

  await using fleet = await FleetProcess.start(config);
  const openai = clientOf(fleet);
  let batch = await openai.batches.retrieve(id);
  await until(async () => {
    batch = await openai.batches.retrieve(id);
    return batch.status === "completed";
  }, "the batch to end");
  expect(batch.request_counts).toEqual({ total: NUM_LINES, completed: NUM_LINES, failed: 0 });
  expect([batches.batches.length, batches.ran.length]).toEqual([1, NUM_LINES]);
  const text = await (await openai.files.content(batch.output_file_id!)).text();
  const ids = text
    .trim()
    .split("\n")
    .map((each) => (JSON.parse(each) as Json).custom_id as string);
  expect(ids.sort()).toEqual(Array.from({ length: NUM_LINES }, (_, i) => `${i}`).sort());

  // A line whose result was being kept when the process died may be booked again, and no other.
  const { data } = (await fleet.admin("GET", "/admin/ledger/spend?group_by=status")) as Json;
  const answered = data.find(({ status }: Json) => Number(status) === 200).requests;
  expect(answered - NUM_LINES).toBeGreaterThanOrEqual(0);
  expect(answered - NUM_LINES).toBeLessThanOrEqual(1);
  const key = (await (
    await fetch(`${fleet.url}/v1/key`, { headers: { authorization: "Bearer shop-secret" } })
  ).json()) as Json;
  const { spent, reserved } = key.scopes.find(({ budgets }: Json) => budgets.day !== undefined).budgets.day;
  expect(Number(reserved)).toBe(0);
  expect(Number(spent)).toBeCloseTo(answered * 0.000055, 6);
  expect(fleet.text).not.toContain(KEY);
});
