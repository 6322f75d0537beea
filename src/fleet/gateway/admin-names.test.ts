/** Every answer of the administrator's API names its fields alike, as OpenAI's API does. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../../test/helpers/whole-gateway.js";
import type { Fleet } from "../fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-admin-names-"));
let fleet: Fleet;
let engine: Awaited<ReturnType<typeof startStandIn>>;

const admin = async (path: string, body?: object): Promise<Json> => {
  const headers = { authorization: "Bearer admin" };
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(`${fleet.url}/admin/${path}`, { headers, ...sent });
  expect(answer.ok, path).toBe(true);
  return await answer.json();
};

beforeAll(async () => {
  engine = await startStandIn((received, outgoing) => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const data = [{ id: "m", index: 0, embedding: [1, 0] }];
    const choices = [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }];
    answerJson({ data, choices, usage })(received, outgoing);
  });
  fleet = await startWholeGateway(folder, engine.url, "admin-key: admin");
  const { key } = await admin("keys", { name: "laptop", requests_per_minute: 60 });
  const asked = await fetch(`${fleet.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }], temperature: 0 }),
  });
  expect(asked.status).toBe(200);
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  rmSync(folder, { recursive: true, force: true });
});

const namesIn = (value: unknown): readonly string[] =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([name, each]) => [...(Array.isArray(value) ? [] : [name]), ...namesIn(each)]);

test.each([
  ["instances", "in_flight"],
  ["orgs", "tokens_per_minute"],
  ["keys", "last_used_at"],
  ["audit", "request_id"],
  ["ledger/requests", "first_byte_ms"],
  ["ledger/spend", "cache_read"],
  ["alerts", "has_more"],
  ["cache", "max_bytes"],
  ["cascades", "num_samples"],
  ["semantic-cache", "judged_same"],
])("%s: %s", async (path, name) => {
  const names = namesIn(await admin(path));
  expect(names).toContain(name);
  expect(names.filter((each) => /[A-Z-]/.test(each))).toEqual([]);
});
