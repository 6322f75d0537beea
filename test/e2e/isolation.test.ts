/** What one API key's requests leave behind is not seen by another's: on a single server and behind a gateway. */
import { expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { startTestServer } from "../helpers/server.js";
import { answerJson, startStandIn } from "../helpers/stand-in.js";

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

test("a server isolates tenants by default, and shares prefixes if configured", async () => {
  await using server = await startTestServer(["--model", MODEL, "--api-key", "a,b"]);
  expect(await inTurn(server.url, "a", "b", "a", "b")).toEqual([false, false, true, true]);
  await using shared = await startTestServer(["--model", MODEL, "--api-key", "a,b", "--no-isolate-api-keys"]);
  expect(await inTurn(shared.url, "a", "b")).toEqual([false, true]);
});

test("a fleet warns at its start about paths that cannot isolate tenants, and refuses requests to them", async () => {
  const engine = await startStandIn(answerJson({}));
  try {
    const keys = ["a", "b"].map((tenant) => ({ tenant, key: `sk-${tenant}` }));
    const models = [{ name: "m", engine: "sglang", attach: [{ url: engine.url }] }];
    const ask = async ({ url }: FleetProcess, path: string) => {
      const body = JSON.stringify({ model: "m", messages: [] });
      const answer = await fetch(url + path, { method: "POST", headers: { authorization: "Bearer sk-a" }, body });
      return [answer.status, await answer.text()];
    };
    await using apart = await FleetProcess.start({ "api-keys": keys, "log-format": "json", models });
    const line = apart.text.split("\n").find((each) => each.includes("can keep tenants' cached prefixes apart"));
    expect(JSON.parse(line!)).toMatchObject({
      model: "m",
      engine: "sglang",
      refused: [
        "/v1/messages",
        "/v1/embeddings",
        "/v2/embed",
        "/v1/rerank",
        "/v2/rerank",
        "/rerank",
        "/v1/score",
        "/score",
      ],
    });
    const refusal = await ask(apart, "/v1/messages");
    expect(refusal).toEqual([403, expect.stringContaining("isolation_unsupported")]);
    expect(await ask(apart, "/v1/chat/completions")).toEqual([200, "{}"]);
    expect(engine.received.at(-1)?.body.cache_salt).toMatch(/^[0-9a-f]{64}$/);
    await using shared = await FleetProcess.start({ "api-keys": keys, "isolate-api-keys": false, models });
    expect(shared.text).not.toContain("cannot keep");
    expect(await ask(shared, "/v1/messages")).toEqual([200, "{}"]);
  } finally {
    await engine.die();
  }
});

test("in a fleet the keys of a tenant share prefixes, two tenants do not, and routing by tokens finds each tenant's own", async () => {
  const keys = ["a", "a", "b"].map((tenant, i) => ({ tenant, key: `sk-${i}` }));
  const models = [{ name: "stories", model: MODEL, instances: 2, "cores-per-instance": 1 }];
  await using fleet = await FleetProcess.start({ "api-keys": keys, models });
  expect(fleet.text).toMatch(/^each of 2 tenants has its own cached prefixes[\s\S]*^ {2}ready /m);
  expect(await inTurn(fleet.url, "sk-0", "sk-2")).toEqual([false, false]);
  expect(await inTurn(fleet.url, "sk-1", "sk-0", "sk-2")).toEqual([true, true, true]);
});
