/** Recorded requests, through the real proxy and the guardrails. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, type Behaviour, beginStream, sse, startFleet } from "../../../test/helpers/stand-in.js";
import { usageAsker } from "../../gateway/ask-usage.js";
import { parseConfig } from "../config/read-config.js";
import { createGuardrails, createRecorder } from "./hook-policies.js";

let folder: string;
let stop: () => Promise<void>;
const counts = { written: 0, lost: 0 };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-recorder-"));
  Object.assign(counts, { written: 0, lost: 0 });
  stop = async () => {};
});
afterEach(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true });
});

const CHAT = "/v1/chat/completions";
const USAGE = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
const answer = (content: string) =>
  answerJson({
    id: "c",
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: USAGE,
  });
const hello = { model: "m", max_tokens: 5, messages: [{ role: "user", content: "I am john@example.com" }] };

async function start(behaviour: Behaviour, recorder = "{}") {
  const file = `
models: [{name: m, attach: [{url: "http://127.0.0.1:1"}]}]
hooks:
  guardrails: [{name: pii, find: [email], action: redact}]
  recorder: ${recorder}`;
  const config = parseConfig(file, "millrace.yaml", {});
  const context = {
    config: () => config,
    models: { resolve: (name: string) => name },
    logger: pino({ level: "silent" }),
    dataFolder: folder,
    metrics: {
      requestsRecorded: (result: "written" | "lost", count: number) => {
        counts[result] += count;
      },
    },
  };
  const recorderPolicies = createRecorder(context)!;
  const policies = [recorderPolicies.outer, createGuardrails(context)!, recorderPolicies.inner, usageAsker];
  const fleet = await startFleet([behaviour], { proxy: { policies, authorize: () => ({ tenant: "acme" }) } });
  stop = () => fleet.stop();
  return {
    fleet,
    post: async (body: object | string, headers: Record<string, string> = {}, path = CHAT) =>
      await (await fleet.post(path, body, { headers })).text(),
    /** The lines, once all is written. */
    lines: async (): Promise<Json[]> => {
      await recorderPolicies.outer.close?.();
      const traffic = join(folder, "traffic");
      if (!existsSync(traffic)) return [];
      const texts = readdirSync(traffic).map((name) => readFileSync(join(traffic, name), "utf8"));
      return texts.flatMap((text) => text.trimEnd().split("\n")).map((line) => JSON.parse(line));
    },
  };
}

describe("a chat", () => {
  test("is a line with its answer, as the guardrails leave both", async () => {
    const beganMs = Date.now();
    const { post, lines } = await start(answer("Hello jane@example.com"));
    await post(hello, { "x-request-id": "r1" });
    const [line] = await lines();
    expect(line).toMatchObject({
      id: "r1",
      path: CHAT,
      model: "m",
      tenant: "acme",
      cached: false,
      request: { ...hello, messages: [{ role: "user", content: "I am [email]" }] },
      response: {
        choices: [{ message: { role: "assistant", content: "Hello [email]" }, finish_reason: "stop" }],
        usage: USAGE,
      },
    });
    expect(line.timestamp).toBeGreaterThanOrEqual(beganMs);
    expect(line.duration_ms).toBeGreaterThanOrEqual(line.first_byte_ms);
    expect(JSON.stringify(line)).not.toMatch(/john|jane/);
    expect(counts).toEqual({ written: 1, lost: 0 });
  });

  test("keeps the client's own numbers, on one line", async () => {
    const { post, lines, fleet } = await start(answer("a"));
    await post(
      '{\r\n  "model": "m",\n  "seed": 12345678901234567890, "messages": [{"role": "user", "content": "a\\nb"}]\n}',
    );
    await lines();
    const traffic = join(folder, "traffic");
    const text = readFileSync(join(traffic, readdirSync(traffic)[0]!), "utf8");
    expect(text).toContain('"seed": 12345678901234567890');
    expect(text.match(/\n/g)).toHaveLength(1);
    expect(fleet.standIns[0]!.received).toHaveLength(1);
  });

  test("that is streamed has its calls and counts put together", async () => {
    const made = [{ index: 0, id: "call_1", type: "function", function: { name: "find", arguments: '{"q":' } }];
    const events = [
      { choices: [{ index: 0, delta: { role: "assistant", tool_calls: made } }] },
      { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: '"a"}' } }] } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
      { choices: [], usage: USAGE },
      "[DONE]",
    ];
    const { post, lines } = await start((_, outgoing) => {
      beginStream(outgoing);
      outgoing.end(events.map(sse).join(""));
    });
    expect(await post({ ...hello, stream: true })).not.toContain("usage");
    const [{ response }] = (await lines()) as [Json];
    expect(response).toMatchObject({
      choices: [
        {
          message: { tool_calls: [{ id: "call_1", function: { name: "find", arguments: '{"q":"a"}' } }] },
          finish_reason: "tool_calls",
        },
      ],
      usage: USAGE,
    });
  });

  test("of Anthropic's API has OpenAI's form", async () => {
    const { post, lines } = await start(
      answerJson({
        type: "message",
        role: "assistant",
        content: [{ type: "text", text: "Hello" }],
        stop_reason: "end_turn",
        usage: { input_tokens: 9, output_tokens: 4 },
      }),
    );
    await post(
      { model: "m", max_tokens: 5, system: "Be kind.", messages: [{ role: "user", content: "Hi" }] },
      {},
      "/v1/messages",
    );
    expect(await lines()).toMatchObject([
      {
        path: "/v1/messages",
        request: {
          model: "m",
          max_tokens: 5,
          messages: [
            { role: "system", content: "Be kind." },
            { role: "user", content: "Hi" },
          ],
        },
        response: {
          choices: [{ message: { content: "Hello" }, finish_reason: "stop" }],
          usage: { completion_tokens: 4 },
        },
      },
    ]);
  });
});

describe("a response", () => {
  const RESPONSES = "/v1/responses";
  const response = {
    id: "resp_1",
    object: "response",
    status: "completed",
    model: "m",
    output: [
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
      {
        type: "message",
        id: "msg_1",
        role: "assistant",
        content: [{ type: "output_text", text: "Hello jane@example.com" }],
      },
      { type: "function_call", id: "fc_1", call_id: "call_1", name: "find", arguments: '{"q":"a"}' },
    ],
    usage: { input_tokens: 9, input_tokens_details: { cached_tokens: 2 }, output_tokens: 4, total_tokens: 13 },
  };
  const asking = { model: "m", instructions: "Be kind.", input: "I am john@example.com", max_output_tokens: 5 };

  test.each([false, true])("has a chat's form, streamed: %s", async (stream) => {
    const begun = { type: "response.created", response: { ...response, status: "in_progress", output: [] } };
    const { post, lines } = await start((request, outgoing) => {
      if (!stream) return answerJson(response)(request, outgoing);
      beginStream(outgoing);
      const events = [begun, { type: "response.completed", response }];
      outgoing.end(events.map((each) => `event: ${each.type}\n${sse(each)}`).join(""));
    });
    await post({ ...asking, stream }, {}, RESPONSES);
    const [line] = await lines();
    expect(line).toMatchObject({
      path: RESPONSES,
      request: {
        model: "m",
        max_tokens: 5,
        messages: [
          { role: "system", content: "Be kind." },
          { role: "user", content: "I am [email]" },
        ],
      },
      response: {
        choices: [
          {
            message: {
              content: "Hello [email]",
              reasoning_content: "Hm.",
              tool_calls: [{ id: "call_1", function: { name: "find", arguments: '{"q":"a"}' } }],
            },
            finish_reason: "tool_calls",
          },
        ],
        usage: { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 2 } },
      },
    });
  });

  test("that its client forbids to store is not recorded, and one that the gateway keeps is", async () => {
    const { post, lines } = await start(answerJson(response));
    for (const store of [true, false, undefined]) await post({ ...asking, store, user: String(store) }, {}, RESPONSES);
    expect((await lines()).map(({ request }) => request.user)).toEqual(["true", "undefined"]);
  });

  test("that failed is counted as lost", async () => {
    const { post, lines } = await start(answerJson({ ...response, status: "failed" }));
    await post(asking, {}, RESPONSES);
    expect([await lines(), counts]).toEqual([[], { written: 0, lost: 1 }]);
  });
});

describe("not recorded", () => {
  test.each<[string, object, Record<string, string>, string]>([
    ["a request that says store: false", { ...hello, store: false }, {}, CHAT],
    ["a request with cache-control: no-store", hello, { "cache-control": "no-store" }, CHAT],
    ["another path", { model: "m", prompt: "a" }, {}, "/v1/completions"],
  ])("%s", async (_, body, headers, path) => {
    const { post, lines } = await start(answer("a"));
    await post(body, headers, path);
    expect([await lines(), counts]).toEqual([[], { written: 0, lost: 0 }]);
  });

  test("errors, and models that are not named", async () => {
    const failing = await start(answerJson({ error: { message: "no" } }, 400));
    await failing.post(hello);
    expect(await failing.lines()).toEqual([]);
    await stop();
    const { post, lines } = await start(answer("a"), "{ models: [other-*] }");
    await post(hello);
    expect(await lines()).toEqual([]);
  });

  test("an answer that cannot be read, which is counted as lost", async () => {
    const { post, lines } = await start(answerJson({ ok: true }));
    await post(hello);
    expect([await lines(), counts]).toEqual([[], { written: 0, lost: 1 }]);
  });
});

test("a share of sessions is recorded, each whole or not at all", async () => {
  const { post, lines } = await start(answer("a"), '{ sample: "50%" }');
  for (let turn = 0; turn < 2; turn++) {
    await Promise.all(Array.from({ length: 40 }, (_, user) => post({ ...hello, user: `u${user}` })));
  }
  const users = (await lines()).map(({ request }) => request.user as string);
  const turns = new Map<string, number>();
  for (const user of users) turns.set(user, (turns.get(user) ?? 0) + 1);
  expect([...turns.values()].every((count) => count === 2)).toBe(true);
  expect(turns.size).toBeGreaterThan(8);
  expect(turns.size).toBeLessThan(32);
});
