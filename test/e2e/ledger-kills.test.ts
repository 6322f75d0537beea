/**
 * A gateway that is killed again and again: every answer that a client got is in the ledger once, and what ran is said
 * to be lost.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { FleetProcess, until } from "../helpers/fleet-process.js";
import type { Json } from "../helpers/json.js";
import { beginStream, sse, startStandIn } from "../helpers/stand-in.js";

const ROUNDS = 3;
const CLIENTS = 16;
/** Answers after which the gateway is killed. */
const ROUND_ANSWERS = 100;

const folder = mkdtempSync(join(tmpdir(), "millrace-ledger-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("kill -9 loses no answered request, and counts none twice", { timeout: 120_000 }, async () => {
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const upstream = await startStandIn(({ body }, outgoing) => {
    if (body.stream !== true)
      return void outgoing.setHeader("Content-Type", "application/json").end(JSON.stringify({ usage }));
    beginStream(outgoing);
    outgoing.write(sse({ choices: [{ delta: { content: "a" } }] }));
    setTimeout(() => outgoing.end(`${sse({ choices: [], usage })}${sse("[DONE]")}`), 20);
  });
  const config = {
    ledger: {},
    "data-folder": folder,
    models: [
      {
        name: "m",
        engine: "openai",
        price: { input: "1", output: "2" },
        attach: [{ url: upstream.url, probe: true }],
      },
    ],
  };
  const answered = new Set<string>();
  let number = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await using fleet = await FleetProcess.start(config);
    let isOver = false;
    const client = async (): Promise<void> => {
      while (!isOver) {
        const id = `request-${number++}`;
        const body = JSON.stringify({ model: "m", messages: [], stream: number % 2 === 0 });
        const headers = { "x-request-id": id };
        try {
          const answer = await fetch(`${fleet.url}/v1/chat/completions`, { method: "POST", body, headers });
          const text = await answer.text();
          if (answer.status === 200 && (text.includes("[DONE]") || text.includes("usage"))) answered.add(id);
        } catch {
          // The gateway is gone.
        }
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    const before = answered.size;
    await until(() => answered.size >= before + ROUND_ANSWERS, "answers");
    process.kill(fleet.pid, "SIGKILL");
    isOver = true;
    await Promise.all(clients);
  }
  await using fleet = await FleetProcess.start(config);
  const rows: Json[] = [];
  for (let cursor = ""; ; ) {
    const page = (await fleet.admin("GET", `/admin/ledger/requests?limit=500${cursor}`)) as Json;
    for (const row of page.data) rows.push(row);
    if (!page.has_more) break;
    cursor = `&cursor=${page.next_cursor}`;
  }
  const whole = rows.filter(({ outcome }) => outcome === "answered").map(({ id }) => id);
  expect(new Set(whole).size).toBe(whole.length);
  const missing = [...answered].filter((id) => !whole.includes(id));
  const lost = new Set(rows.filter(({ outcome }) => outcome === "lost").map(({ id }) => id));
  // The last bytes of an answer may reach the client in the turn before its row is committed: it is then lost, never
  // gone.
  expect(missing.filter((id) => !lost.has(id))).toEqual([]);
  expect(missing.length).toBeLessThanOrEqual(ROUNDS * CLIENTS);
  expect(lost.size).toBeLessThanOrEqual(ROUNDS * CLIENTS);
  const { data } = (await fleet.admin("GET", "/admin/ledger/spend")) as Json;
  expect(data[0]).toMatchObject({ requests: rows.length, cost: `0.${String(whole.length * 20_000).padStart(9, "0")}` });
  await upstream.die();
});
