/** Guardrails on complete and streamed answers, and checkers, through the real proxy, on every API. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { MAIL, post, rail, startGuarded, user } from "../../../test/helpers/guarded-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, type Behaviour, beginStream } from "../../../test/helpers/stand-in.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(guardrails: string, behaviour?: Behaviour) {
  const fleet = await startGuarded(guardrails, behaviour);
  closing.push(() => fleet.stop());
  return fleet;
}

/** A text as the events of an API, in pieces. */
type Streamed = (pieces: readonly string[]) => readonly object[];

const event = (data: object): string => {
  const { type } = data as { readonly type?: string };
  return `${type === undefined ? "" : `event: ${type}\n`}data: ${JSON.stringify(data)}\n\n`;
};

const STREAMS: readonly (readonly [string, string, object, Streamed, (events: readonly Json[]) => string])[] = [
  [
    "chat",
    "/v1/chat/completions",
    { messages: user("hi") },
    (pieces) => [
      { choices: [{ index: 0, delta: { role: "assistant" } }] },
      ...pieces.map((content) => ({
        choices: [{ index: 0, delta: { content }, logprobs: { content: [{ token: content }] }, finish_reason: null }],
      })),
      { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
      { choices: [], usage: { prompt_tokens: 1 } },
    ],
    (events) => events.map((each) => each.choices[0]?.delta.content ?? "").join(""),
  ],
  [
    "a tool call",
    "/v1/chat/completions",
    { messages: user("hi") },
    (pieces) => [
      ...pieces.map((text) => ({
        choices: [{ index: 0, delta: { tool_calls: [{ index: 1, function: { arguments: text } }] } }],
      })),
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
    ],
    (events) => events.map((each) => each.choices[0]?.delta.tool_calls?.[0].function.arguments ?? "").join(""),
  ],
  [
    "completions",
    "/v1/completions",
    { prompt: "hi" },
    (pieces) =>
      pieces.map((text, i) => ({
        choices: [{ index: 0, text, finish_reason: i === pieces.length - 1 ? "length" : null }],
      })),
    (events) => events.map((each) => each.choices[0].text).join(""),
  ],
  [
    "responses",
    "/v1/responses",
    { input: "hi" },
    (pieces) => {
      const place = { item_id: "i", output_index: 0, content_index: 0 };
      const text = pieces.join("");
      const item = { type: "message", content: [{ type: "output_text", text }] };
      return [
        { type: "response.created", response: { id: "r", output: [] } },
        ...pieces.map((delta) => ({ type: "response.output_text.delta", ...place, delta })),
        { type: "response.output_text.done", ...place, text },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response: { id: "r", status: "completed", output: [item] } },
      ].map((each, i) => ({ ...each, sequence_number: i }));
    },
    (events) => {
      const numbers = events.map(({ sequence_number }) => sequence_number);
      expect(numbers).toEqual(numbers.map((_, i) => i));
      const [done, itemDone, completed] = events.slice(-3);
      const text = events.map(({ delta }) => delta ?? "").join("");
      expect([done.text, itemDone.item.content[0].text, completed.response.output[0].content[0].text]).toEqual([
        text,
        text,
        text,
      ]);
      return text;
    },
  ],
  [
    "messages",
    "/v1/messages",
    { max_tokens: 9, messages: user("hi") },
    (pieces) => [
      { type: "message_start", message: { id: "m", content: [], usage: { input_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      ...pieces.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
      { type: "message_stop" },
    ],
    (events) => events.map(({ delta }) => delta?.text ?? "").join(""),
  ],
];

/** Writes the bytes in chunks that ignore the events' bounds. */
function streaming(events: readonly object[], chunkBytes = 1_000_000): Behaviour {
  const isOpenAi = !("type" in events[0]!);
  const bytes = Buffer.from(events.map(event).join("") + (isOpenAi ? "data: [DONE]\n\n" : ""));
  return async (_, outgoing) => {
    beginStream(outgoing);
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      outgoing.write(bytes.subarray(at, at + chunkBytes));
      if (chunkBytes < 1000) await new Promise((resolve) => setImmediate(resolve));
    }
    outgoing.end();
  };
}

const eventsIn = (text: string): readonly Json[] =>
  text.split("\n").flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6))] : []));

describe.each(STREAMS)("a stream of %s", (_, path, body, streamed, textIn) => {
  const TEXT = `Ask ${MAIL} or DE89 3704 0044 0532 0130 00`;

  test("is redacted, wherever it is cut, and whole otherwise", async () => {
    const fleet = await start(rail("redact", ", on: [answer]"));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(TEXT.length), { maxLength: 8 }),
        fc.integer({ min: 5, max: 400 }),
        async (cuts, chunkBytes) => {
          const at = [...new Set(cuts)].sort((a, b) => a - b);
          const pieces = [0, ...at].map((from, i) => TEXT.slice(from, at[i] ?? TEXT.length));
          fleet.standIns[0]!.behave = streaming(streamed(pieces), chunkBytes);
          const { text, status } = await post(fleet, path, { ...body, stream: true });
          expect(status).toBe(200);
          expect(textIn(eventsIn(text))).toBe("Ask [email] or [iban]");
          expect([text.includes("john"), text.includes("0044")]).toEqual([false, false]);
        },
      ),
      { numRuns: 12 },
    );
  });

  test("ends with an error where it is refused, and the instance is left", async () => {
    const fleet = await start(rail("refuse", ", on: [answer]"), async (__, outgoing) => {
      beginStream(outgoing);
      const [head = {}, ...rest] = streamed(["a word, ", "then john@exam", "ple.com, and ", "more"]);
      for (const each of [head, ...rest.slice(0, 4)]) outgoing.write(event(each));
      // The upstream's stream has no end.
      const timer = setInterval(() => outgoing.write(": still here\n\n"), 5);
      outgoing.on("close", () => clearInterval(timer));
    });
    const answer = await post(fleet, path, { ...body, stream: true });
    expect([answer.text.includes("guardrail_refused"), answer.text.includes("john")]).toEqual([true, false]);
    while (fleet.standIns[0]!.numCut === 0) await new Promise((resolve) => setImmediate(resolve));
  });

  test("passes unchanged where nothing is found", async () => {
    const events = streamed(["one ", "two, ", "three."]);
    const fleet = await start(rail("flag"), streaming(events));
    const { text } = await post(fleet, path, { ...body, stream: true });
    expect(eventsIn(text)).toMatchObject(events);
    expect(eventsIn(text)).toHaveLength(events.length);
  });
});

describe("whole answers", () => {
  const WHOLE: readonly (readonly [string, string, object, (text: string) => object])[] = [
    [
      "chat",
      "/v1/chat/completions",
      { messages: user("hi") },
      (content) => ({ choices: [{ message: { role: "assistant", content } }] }),
    ],
    [
      "completions",
      "/v1/completions",
      { prompt: "hi" },
      (text) => ({ choices: [{ text, logprobs: { tokens: [text] } }] }),
    ],
    [
      "responses",
      "/v1/responses",
      { input: "hi" },
      (text) => ({ id: "r", output: [{ content: [{ type: "output_text", text }] }] }),
    ],
    [
      "messages",
      "/v1/messages",
      { max_tokens: 1, messages: user("hi") },
      (text) => ({ content: [{ type: "text", text }] }),
    ],
  ];

  test.each(WHOLE)("of %s are redacted, flagged or refused", async (_, path, body, answer) => {
    const redacting = await start(rail("redact", ", on: [answer]"), answerJson(answer(`to ${MAIL}.`)));
    const redacted = await post(redacting, path, body);
    expect([redacted.status, redacted.text.includes("to [email]."), redacted.text.includes(MAIL)]).toEqual([
      200,
      true,
      false,
    ]);
    const flagging = await start(rail("flag"), answerJson(answer(MAIL)));
    const flagged = await post(flagging, path, body);
    expect(flagged.headers.get("x-millrace-guardrails")).toBe("pii: flag email in the answer (1)");
    expect(flagged.json).toMatchObject(answer(MAIL));
    const refusing = await start(rail("refuse"), answerJson(answer(MAIL)));
    const refused = await post(refusing, path, body);
    expect([refused.status, refused.text.includes(MAIL)]).toEqual([400, false]);
  });

  test("what cannot be read is not passed on, and errors are", async () => {
    const fleet = await start(rail("redact"), (_, outgoing) => {
      outgoing.writeHead(200, { "Content-Type": "application/json" }).end(`{"choices": [{"text": "${MAIL}`);
    });
    const broken = await post(fleet, "/v1/completions", { prompt: "hi" });
    expect([broken.status, broken.json.error.code]).toEqual([503, "guardrail_failed"]);
    fleet.standIns[0]!.behave = answerJson({ error: { message: "no" } }, 404);
    expect(await post(fleet, "/v1/completions", { prompt: "hi" })).toMatchObject({
      status: 404,
      json: { error: { message: "no" } },
    });
    // The gateway never asks an engine to compress; a compressed answer cannot be searched.
    fleet.standIns[0]!.behave = (_, outgoing) => {
      outgoing.writeHead(200, { "Content-Encoding": "gzip", "Content-Type": "application/octet-stream" }).end("x");
    };
    expect((await post(fleet, "/v1/completions", { prompt: "hi" })).json.error?.code).toBe("upstream_failed");
  });
});

describe("a checker", () => {
  let server: Server;
  const asked: Json[] = [];
  async function checker(answer: (body: Json) => object | undefined): Promise<string> {
    asked.length = 0;
    server = createServer(async (incoming, outgoing) => {
      let text = "";
      for await (const chunk of incoming) text += chunk;
      // The gateway has closed the connection.
      if (incoming.errored !== null || text === "") return;
      asked.push({ ...JSON.parse(text), key: incoming.headers.authorization });
      const value = answer(asked.at(-1));
      if (value !== undefined) outgoing.end(JSON.stringify(value));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closing.push(async () => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/check`;
  }
  const asking = (url: string, more = "", action = "refuse") =>
    `    - {name: mod, checker: {url: "${url}", api-key: secret${more}}, action: ${action}}\n`;
  const isBad = ({ input }: Json) => ({
    allowed: !input.some((text: string) => text.includes("bad")),
    reason: "foul language",
  });

  test("refuses requests and answers, also streamed ones before their first byte", async () => {
    const fleet = await start(asking(await checker(isBad)), answerJson({ choices: [{ text: "fine" }] }));
    const refused = await post(fleet, "/v1/completions", { prompt: "bad thing" });
    expect([refused.status, refused.json.error.message]).toEqual([400, expect.stringContaining("foul language")]);
    expect((await post(fleet, "/v1/completions", { prompt: "good" })).status).toBe(200);
    expect(asked.map(({ stage, input, key }) => [stage, input, key])).toEqual([
      ["request", ["bad thing"], "Bearer secret"],
      ["request", ["good"], "Bearer secret"],
      ["answer", ["fine"], "Bearer secret"],
    ]);
    for (const [, path, body, streamed, textIn] of STREAMS) {
      fleet.standIns[0]!.behave = streaming(streamed(["a b", "ad word"]));
      const cut = await post(fleet, path, { ...body, stream: true });
      expect([cut.status, cut.text.includes("ad word")]).toEqual([400, false]);
      fleet.standIns[0]!.behave = streaming(streamed(["a go", "od word"]));
      const passed = await post(fleet, path, { ...body, stream: true });
      expect([passed.status, passed.text.includes("guardrail")], passed.text).toEqual([200, false]);
      expect(textIn(eventsIn(passed.text))).toBe("a good word");
    }
  });

  test("may answer like OpenAI's moderations", async () => {
    const flagged = { results: [{ flagged: true, categories: { violence: true, hate: false } }] };
    const fleet = await start(asking(await checker(() => flagged)));
    const { json } = await post(fleet, "/v1/completions", { prompt: "x" });
    expect(json.error.message).toContain("without violence");
    const flagging = await start(asking(await checker(() => flagged), "", "flag"));
    expect((await post(flagging, "/v1/completions", { prompt: "x" })).headers.get("x-millrace-guardrails")).toContain(
      "violence",
    );
  });

  test("may say both, where both say the same", async () => {
    const both = { allowed: true, results: [{ flagged: false }] };
    const fleet = await start(asking(await checker(() => both)));
    expect((await post(fleet, "/v1/completions", { prompt: "x" })).status).toBe(200);
  });

  test.each([
    ["does not answer", () => undefined],
    ["answers nonsense", () => ({ fine: 1 })],
    ["has no results", () => ({ results: [] })],
    ["allows what it flags", () => ({ allowed: true, results: [{ flagged: true }] })],
    ["refuses what it does not flag", () => ({ allowed: false, results: [{ flagged: false }] })],
    ["allows beside results that are none", () => ({ allowed: true, results: [{}] })],
    ["allows by a word", () => ({ allowed: "yes", results: [{ flagged: false }] })],
  ])("that %s closes, or is passed over", async (_, answer) => {
    const url = await checker(answer);
    const closed = await post(await start(asking(url, ", timeout: 500ms")), "/v1/completions", { prompt: "x" });
    expect([closed.status, closed.json.error.code]).toEqual([503, "guardrail_failed"]);
    const open = await start(asking(url, ", timeout: 500ms, on-failure: fail-open"));
    expect((await post(open, "/v1/completions", { prompt: "x" })).status).toBe(200);
  });
});

test.each([
  ["    - {name: a}\n", /expected find, patterns or checker/],
  ['    - {name: a, action: redact, checker: {url: "http://127.0.0.1:1"}}\n', /refuse or flag beside checker/],
  ['    - {name: a, patterns: [{name: x, regex: "(?=a)b"}]}\n', /a regular expression such as/],
  ['    - {name: a, patterns: [{name: x, regex: "("}]}\n', /a regular expression such as/],
  ["    - {name: a, find: [shoes]}\n", /email/],
])("%s is refused", async (guardrails, message) => {
  await expect(start(guardrails)).rejects.toThrow(message);
});
