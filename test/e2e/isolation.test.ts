/** What one API key's requests leave behind is not seen by another's: on a single server and behind a gateway. */
import { expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { startTestServer } from "../helpers/server.js";

const MODEL = fixture("models/stories260k.gguf");
const PROMPT =
  "Once upon a time there was a little fox who lived by the river and liked to count all the stones in it. ".repeat(2);

async function cachedTokens(url: string, key: string): Promise<number> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ prompt: PROMPT, max_tokens: 1 }),
  });
  expect(answer.status).toBe(200);
  const { usage } = (await answer.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
  return usage.prompt_tokens_details.cached_tokens;
}

/** Cached tokens of requests with these keys, one after the other. */
async function inTurn(url: string, ...keys: readonly string[]): Promise<readonly boolean[]> {
  const found: boolean[] = [];
  for (const key of keys) found.push((await cachedTokens(url, key)) > 0);
  return found;
}

test("of a server: by default, and shared where that is said", async () => {
  await using server = await startTestServer(["--model", MODEL, "--api-key", "a,b"]);
  expect(await inTurn(server.url, "a", "b", "a", "b")).toEqual([false, false, true, true]);
  await using shared = await startTestServer(["--model", MODEL, "--api-key", "a,b", "--no-isolate-api-keys"]);
  expect(await inTurn(shared.url, "a", "b")).toEqual([false, true]);
});

test("of a fleet: a tenant's keys share, two tenants do not, and routing by tokens finds each tenant's own", async () => {
  const keys = ["a", "a", "b"].map((tenant, i) => ({ tenant, key: `sk-${i}` }));
  const models = [{ name: "stories", model: MODEL, instances: 2, "cores-per-instance": 1 }];
  await using fleet = await FleetProcess.start({ "api-keys": keys, models });
  expect(fleet.text).toMatch(/^each of 2 tenants has cached prefixes of its own[\s\S]*^ {2}ready /m);
  expect(await inTurn(fleet.url, "sk-0", "sk-2")).toEqual([false, false]);
  expect(await inTurn(fleet.url, "sk-1", "sk-0", "sk-2")).toEqual([true, true, true]);
});
