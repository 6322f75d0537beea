/**
 * A batch of a real gateway whose key has a budget: it pays for all of the lines, but not for all of their reservations
 * at once.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FleetProcess } from "../helpers/fleet-process.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-batch-budgets-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const NUM_LINES = 30;
const line = (i: number) =>
  JSON.stringify({
    custom_id: `${i}`,
    method: "POST",
    url: "/v1/chat/completions",
    // The bound of 200 tokens costs 1,200 microdollars, such an answer about 100.
    body: {
      model: "mill-base",
      messages: [{ role: "user", content: `What is ${i} + 2?` }],
      max_tokens: 200,
      temperature: 0,
    },
  });

/** A batch under a budget of so many dollars a day. @returns how many of its lines have an answer */
async function run(day: string): Promise<OpenAI.BatchRequestCounts> {
  await using fleet = await FleetProcess.start({
    "data-folder": folder,
    "api-keys": [{ tenant: "shop", key: "shop-secret", limits: { budget: { day } } }],
    models: [{ name: "mill-base", model: "models/mill-base.gguf", price: { input: "0", output: "6" } }],
  });
  const openai = new OpenAI({ baseURL: `${fleet.url}/v1`, apiKey: "shop-secret", maxRetries: 0 });
  const lines = Array.from({ length: NUM_LINES }, (_, i) => line(i));
  const input = await toFile(Buffer.from(lines.join("\n")), "in.jsonl");
  const file = await openai.files.create({ file: input, purpose: "batch" });
  const endpoint = "/v1/chat/completions";
  const { id } = await openai.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" });
  for (;;) {
    const { status, request_counts } = await openai.batches.retrieve(id);
    if (status === "completed") return request_counts!;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("lines wait for what other lines have reserved", async () => {
  expect(await run("0.01")).toEqual({ total: NUM_LINES, completed: NUM_LINES, failed: 0 });
}, 60_000);

test("lines without a budget do not wait", async () => {
  expect(await run("0.0005")).toEqual({ total: NUM_LINES, completed: 0, failed: NUM_LINES });
}, 60_000);
