/**
 * Kept answers of the real engine behind the real gateway: equal to the bit, in every dialect, and after the gateway
 * has been killed.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { toolTemplate } from "../helpers/chat-templates.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { cases } from "../helpers/long.js";
import { TestRng } from "../helpers/rng.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
const template = join(folder, "tools.jinja");
writeFileSync(template, toolTemplate.source);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const config = {
  "data-folder": join(folder, "data"),
  cache: {},
  models: [{ name: "mill-base", model: "models/mill-base.gguf", args: ["--chat-template", template] }],
};

const messages = [{ role: "user", content: "Tell me a short story about a fox." }];
const schema = {
  type: "object",
  properties: { colour: { enum: ["red", "blue"] }, size: { type: "integer", minimum: 3, maximum: 40 } },
  required: ["colour", "size"],
};
const openAiTools = [{ type: "function", function: { name: "shirt", parameters: schema, strict: true } }];
const usage = { stream_options: { include_usage: true } };

/** Path, body, and what a stream of it needs beside. */
const REQUESTS: readonly (readonly [name: string, path: string, body: object, streamed: object | undefined])[] = [
  ["chat", "/v1/chat/completions", { messages, max_tokens: 24, temperature: 0 }, usage],
  [
    "chat with log-probabilities and two seeded choices",
    "/v1/chat/completions",
    {
      messages,
      max_tokens: 12,
      seed: 5,
      temperature: 1,
      n: 2,
      logprobs: true,
      top_logprobs: 3,
      return_token_ids: true,
    },
    {},
  ],
  [
    "chat with a forced call",
    "/v1/chat/completions",
    { messages, max_tokens: 120, temperature: 0, tools: openAiTools, tool_choice: "required" },
    usage,
  ],
  [
    "completions",
    "/v1/completions",
    { prompt: ["Once", "A fox"], max_tokens: 12, temperature: 0, logprobs: 2, echo: true },
    usage,
  ],
  [
    "responses",
    "/v1/responses",
    { input: "Calculate 894 - 859.", max_output_tokens: 24, temperature: 0, top_logprobs: 2 },
    {},
  ],
  [
    "responses with a forced call",
    "/v1/responses",
    {
      input: "Which shirt?",
      max_output_tokens: 120,
      temperature: 0,
      tools: [{ type: "function", name: "shirt", parameters: schema, strict: true }],
      tool_choice: "required",
    },
    {},
  ],
  ["messages", "/v1/messages", { messages, max_tokens: 24, temperature: 0 }, {}],
  [
    "messages with a forced call",
    "/v1/messages",
    {
      messages,
      max_tokens: 120,
      temperature: 0,
      tools: [{ name: "shirt", input_schema: schema, strict: true }],
      tool_choice: { type: "any" },
    },
    {},
  ],
  ["embeddings", "/v1/embeddings", { input: ["a fox", "a river"], encoding_format: "base64" }, undefined],
];

/** The answer's own id and times, which every answer has anew. */
const OWN = /"id": ?"(?:chatcmpl|cmpl|resp|msg)[-_][^"]+"|"(?:created|created_at)": ?\d+/g;
const NOTHING = '"-":0';
/**
 * Ids of items and calls too, and how much of the prompt was in the prefix cache: they differ between two runs of the
 * engine.
 */
const OF_RUN = /"(?:id|item_id|call_id)": ?"[^"]+"|"(?:cached_tokens|cache_read_input_tokens|input_tokens)": ?\d+/g;

/** Ids of messages within a response are those of items: only the first id of a response's objects is its own. */
const withoutOwn = (text: string, path: string) =>
  path === "/v1/responses"
    ? text.replace(/"id":"resp_[^"]+"|"(?:created|completed)_at":\d+/g, NOTHING)
    : text.replace(OWN, NOTHING);

const answerOf = async (response: Response) => ({
  status: response.status,
  cache: response.headers.get("x-millrace-cache"),
  text: await response.text(),
});

describe("kept answers of the real engine", () => {
  let fleet: FleetProcess;
  beforeAll(async () => {
    fleet = await FleetProcess.start(config);
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  const ask = async (path: string, body: object, headers: Record<string, string> = {}) =>
    answerOf(
      await fetch(`${fleet.url}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ model: "mill-base", ...body }),
      }),
    );

  describe.each(REQUESTS)("%s", (_, path, body, streamed) => {
    test.each(streamed === undefined ? [false] : [false, true])("equal to the bit (streamed: %s)", async (stream) => {
      const asked = stream ? { ...body, stream, ...streamed } : body;
      const first = await ask(path, asked);
      expect([first.status, first.cache], first.text).toEqual([200, "miss"]);
      const hit = await ask(path, asked);
      expect(hit.cache).toBe("hit");
      expect(withoutOwn(hit.text, path)).toBe(withoutOwn(first.text, path));
      if (path !== "/v1/embeddings") expect(hit.text).not.toBe(first.text);
      // And equal to what the engine says now.
      const now = await ask(path, asked, { "cache-control": "no-store" });
      expect(now.cache).toBe("bypass");
      const plain = (text: string) => withoutOwn(text, path).replace(OF_RUN, NOTHING);
      expect(assembled(plain(hit.text))).toEqual(assembled(plain(now.text)));
    });
  });

  /** Streams are cut where the engine's steps were: texts of one kind that follow each other are joined. */
  function assembled(text: string): unknown {
    if (!text.includes("data:")) return text;
    const values = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!));
    const texts = new Map<string, string>();
    const collect = (value: unknown, at: string): void => {
      if (typeof value === "string" || typeof value === "number") texts.set(at, (texts.get(at) ?? "") + value);
      else if (typeof value === "object" && value !== null) {
        // An event's own type comes as often as there are events, and so does the index of its call.
        const isOfEvent = (name: string) =>
          (name === "type" && at.endsWith("delta")) || name === "index" || name === "-";
        for (const [name, each] of Object.entries(value).filter(([key]) => !isOfEvent(key)))
          collect(each, Array.isArray(value) ? `${at}[]` : `${at}.${name}`);
      }
    };
    for (const value of values) {
      const delta = value.choices?.[0];
      if (delta !== undefined)
        collect(
          { content: delta.delta ?? delta.text, logprobs: delta.logprobs, ids: delta.token_ids },
          String(delta.index),
        );
      else
        collect(
          { delta: value.delta, response: value.response?.output },
          String(value.index ?? value.output_index ?? ""),
        );
    }
    return texts;
  }

  test("the official clients read kept streams", async () => {
    const client = new OpenAI({ baseURL: `${fleet.url}/v1`, apiKey: "none", maxRetries: 0 });
    const read = async () => {
      let text = "";
      const stream = await client.chat.completions.create({
        model: "mill-base",
        messages: [{ role: "user", content: "Is 35 more than 20?" }],
        temperature: 0,
        max_tokens: 16,
        stream: true,
      });
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      return text;
    };
    const said = await read();
    expect([said.length > 0, await read()]).toEqual([true, said]);
    const anthropic = new Anthropic({ baseURL: fleet.url, apiKey: "none", maxRetries: 0 });
    const write = () =>
      anthropic.messages
        .stream({ model: "mill-base", max_tokens: 16, temperature: 0, messages: [{ role: "user", content: "Who?" }] })
        .finalMessage();
    const [one, two] = [await write(), await write()];
    expect([two.content, two.usage]).toEqual([one.content, one.usage]);
    expect(two.id).not.toBe(one.id);
  });

  test("a conversation of kept responses goes on: each has an id of its own, and the next question is kept too", async () => {
    const turn = async (previous?: string) => {
      const { text, cache } = await ask("/v1/responses", {
        input: "Say one word.",
        max_output_tokens: 8,
        temperature: 0,
        ...(previous === undefined ? {} : { previous_response_id: previous }),
      });
      return { cache, ...(JSON.parse(text) as { id: string; output: unknown }) };
    };
    const [first, second] = [await turn(), await turn()];
    expect([second.cache, second.output]).toEqual(["hit", first.output]);
    expect(second.id).not.toBe(first.id);
    const [third, fourth] = [await turn(first.id), await turn(second.id)];
    expect([third.cache, fourth.cache, fourth.output]).toEqual(["miss", "hit", third.output]);
    for (const { id } of [first, second, third, fourth]) {
      expect((await fetch(`${fleet.url}/v1/responses/${id}`)).status).toBe(200);
    }
  });

  test("a zipf replay of chats: the hit rate is the share of tokens saved", async () => {
    const rng = new TestRng(29);
    const [numPrompts, numAsked] = [cases(24, 60), cases(120, 300)];
    const weights = Array.from({ length: numPrompts }, (_, i) => 1 / (i + 1));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const draw = () => {
      let left = rng.next() * total;
      return weights.findIndex((weight) => {
        left -= weight;
        return left < 0;
      });
    };
    let [numHits, savedTokens, madeTokens] = [0, 0, 0];
    const hitMs: number[] = [];
    const missMs: number[] = [];
    for (let i = 0; i < numAsked; i++) {
      const content = `Calculate ${100 + draw()} - 59.`;
      const beginMs = performance.now();
      const { cache, text } = await ask("/v1/chat/completions", {
        messages: [{ role: "user", content }],
        temperature: 0,
        max_tokens: 16,
      });
      const tookMs = performance.now() - beginMs;
      const { total_tokens: numTokens } = (JSON.parse(text) as { usage: { total_tokens: number } }).usage;
      if (cache === "hit") {
        numHits++;
        savedTokens += numTokens;
        hitMs.push(tookMs);
      } else {
        madeTokens += numTokens;
        missMs.push(tookMs);
      }
    }
    const [hitRate, saved] = [numHits / numAsked, savedTokens / (savedTokens + madeTokens)];
    const medianOf = (all: readonly number[]) => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)]!;
    const p50Ms = medianOf(hitMs);
    console.log(
      `zipf replay: hit rate ${(hitRate * 100).toFixed(1)} %, tokens saved ${(saved * 100).toFixed(1)} %, hit p50 ${p50Ms.toFixed(2)} ms`,
    );
    expect(hitRate).toBeGreaterThan(0.75);
    expect(Math.abs(hitRate - saved)).toBeLessThan(0.02);
    // Other tests share the machine; `node scripts/bench-cache.js` measures.
    expect(p50Ms).toBeLessThan(medianOf(missMs) / 2);
    const metrics = await (await fetch(`${fleet.url}/metrics`)).text();
    expect(metrics).toMatch(/millrace_fleet:cache_requests_total\{model="mill-base",result="hit"\} \d{3}/);
    expect(metrics).toMatch(/millrace_fleet:cache_saved_tokens_total\{model="mill-base",kind="output"\} \d{3}/);
    expect(metrics).toMatch(/millrace_fleet:cache_bytes \d{4}/);
  });

  test("answers outlast a gateway that is killed, until they are purged", async () => {
    const body = { messages, max_tokens: 24, temperature: 0 };
    const before = await ask("/v1/chat/completions", body);
    process.kill(fleet.pid, "SIGKILL");
    await fleet[Symbol.asyncDispose]();
    fleet = await FleetProcess.start(config);
    const after = await ask("/v1/chat/completions", body);
    expect([before.cache, after.cache]).toEqual(["hit", "hit"]);
    expect(withoutOwn(after.text, "/v1/chat/completions")).toBe(withoutOwn(before.text, "/v1/chat/completions"));
    const { entries } = (await fleet.admin("GET", "/admin/cache")) as { entries: number };
    expect(entries).toBeGreaterThan(20);
    expect(await fleet.admin("DELETE", "/admin/cache")).toMatchObject({ error: { code: "invalid_parameter" } });
    expect(await fleet.admin("DELETE", "/admin/cache?modle=mill-base")).toMatchObject({
      error: { code: "invalid_parameter" },
    });
    expect(await fleet.admin("DELETE", "/admin/cache?model=mill-base&tenant=nobody")).toEqual({ purged: 0 });
    expect(await fleet.admin("DELETE", "/admin/cache?model=mill-base")).toEqual({ purged: entries });
    expect((await ask("/v1/chat/completions", body)).cache).toBe("miss");
    const key = { "idempotency-key": "story-1" };
    const sampled = { ...body, temperature: 1 };
    const [one, two] = [
      await ask("/v1/chat/completions", sampled, key),
      await ask("/v1/chat/completions", sampled, key),
    ];
    expect(two.text).toBe(one.text);
    expect((await ask("/v1/chat/completions", body, key)).status).toBe(409);
  });
});
