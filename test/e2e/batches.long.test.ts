/**
 * A batch of 20,000 lines through a real gateway and engine that are killed three times: every custom_id once, errors
 * in the error file.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
import { expect, test } from "vitest";
import { FleetProcess } from "../helpers/fleet-process.js";

const NUM_LINES = Number(process.env.MILLRACE_BATCH_LINES ?? 20_000);
const NUM_KILLS = 3;
/** Every so many lines one is refused by the engine. */
const FAULTY = 100;

const line = (index: number) => {
  const body = {
    model: "mill-base",
    messages: [{ role: "user", content: `What is ${index} + 1?` }],
    // Some answers are long, so that a kill always meets lines under way.
    max_tokens: index % FAULTY === 0 ? -2 : index % 50 === 1 ? 64 : 2,
    temperature: 0,
  };
  return JSON.stringify({ custom_id: `line-${index}`, method: "POST", url: "/v1/chat/completions", body });
};

test(`${NUM_LINES} lines, ${NUM_KILLS} kills`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-batches-long-"));
  const start = () =>
    FleetProcess.start({
      "data-folder": join(folder, "data"),
      models: [{ name: "mill-base", model: "models/mill-base.gguf", instances: 1 }],
    });
  const clientOf = ({ url }: FleetProcess) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  let fleet = await start();
  try {
    const content = Buffer.from(Array.from({ length: NUM_LINES }, (_, i) => line(i)).join("\n"));
    const file = await clientOf(fleet).files.create({ file: await toFile(content, "in.jsonl"), purpose: "batch" });
    const { id } = await clientOf(fleet).batches.create({
      input_file_id: file.id,
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    });
    const doneOf = async () => {
      const { request_counts: counts, status } = await clientOf(fleet).batches.retrieve(id);
      return { done: (counts?.completed ?? 0) + (counts?.failed ?? 0), status };
    };
    for (let kill = 1; kill <= NUM_KILLS; kill++) {
      const goal = (NUM_LINES * kill) / (NUM_KILLS + 1);
      while ((await doneOf()).done < goal) await wait(50);
      const before = (await doneOf()).done;
      process.kill(fleet.pid, "SIGKILL");
      await fleet[Symbol.asyncDispose]();
      fleet = await start();
      let now = await doneOf();
      // The log is read in the background.
      for (let i = 0; i < 200 && now.done < before; i++) {
        await wait(25);
        now = await doneOf();
      }
      expect(now.done).toBeGreaterThanOrEqual(before);
    }
    while (!["completed", "failed", "expired"].includes((await doneOf()).status)) await wait(100);
    const batch = await clientOf(fleet).batches.retrieve(id);
    const numFaulty = Math.ceil(NUM_LINES / FAULTY);
    expect(batch).toMatchObject({
      status: "completed",
      request_counts: { total: NUM_LINES, completed: NUM_LINES - numFaulty, failed: numFaulty },
    });
    const read = async (fileId: string) =>
      (await (await clientOf(fleet).files.content(fileId)).text())
        .trimEnd()
        .split("\n")
        .map((text) => JSON.parse(text) as { custom_id: string; response: { status_code: number } });
    const [output, errors] = [await read(batch.output_file_id!), await read(batch.error_file_id!)];
    expect(output.every(({ response }) => response.status_code === 200)).toBe(true);
    expect(errors.every(({ response }) => response.status_code === 400)).toBe(true);
    expect(errors.map(({ custom_id }) => Number(custom_id.slice(5)) % FAULTY)).toEqual(errors.map(() => 0));
    const ids = [...output, ...errors].map(({ custom_id }) => custom_id);
    expect(ids.length).toBe(NUM_LINES);
    expect(new Set(ids).size).toBe(NUM_LINES);
  } finally {
    await fleet[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  }
}, 3_600_000);
