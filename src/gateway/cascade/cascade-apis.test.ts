/** Cascades of messages and responses: the small model gets a chat if a judge needs more than its answer. */
import { beforeEach, describe, expect, test } from "vitest";
import { BufferSink } from "../answer.js";
import { routeOf } from "../api/routes.js";
import { Cancellation } from "../cancellation.js";
import { DEAF_REQUEST } from "../observer.js";
import type { Handler } from "../pipeline.js";
import type { GatewayRequest, RequestBody } from "../request.js";
import { openDatabase } from "../store/database.js";
import { RequestRecord } from "../usage/record.js";
import { type Cascade, CascadePolicy, type Decision } from "./cascade-policy.js";
import { Guard } from "./guard.js";

const CHAT = "/v1/chat/completions";

interface Said {
  readonly text: string;
  readonly logprob?: number;
  readonly finish?: string;
  readonly status?: number;
}

let models: Record<string, (body: RequestBody) => Said>;
let asked: { readonly model: string; readonly body: RequestBody }[];
let decisions: Decision[];
let draw: number;
let guard: Guard;
let cascade: Cascade;
beforeEach(() => {
  models = { small: () => ({ text: "2" }), large: () => ({ text: "2." }) };
  [asked, decisions, draw] = [[], [], 0.9];
  guard = new Guard(openDatabase(undefined), "smart", "1", { maxLoss: 0.05, alarmEvery: 100 });
  cascade = {
    name: "smart",
    small: "small",
    large: "large",
    judge: { router: undefined, floor: 0, minLogprob: -0.5 },
    agreement: undefined,
    audit: { share: 0.1, judgeModel: undefined },
    guard,
  };
});

/** A whole chat, with log-probabilities on request. */
const upstream: Handler = (request, sink) => {
  asked.push({ model: request.model, body: request.body });
  const { text, logprob = -0.01, finish = "stop", status = 200 } = models[request.model]!(request.body);
  const logprobs = request.body.logprobs === true ? { content: [{ token: "x", logprob, top_logprobs: [] }] } : null;
  const message = { role: "assistant", content: text };
  sink.begin({ status, headers: { "content-type": "application/json", "content-length": "9" }, isEventStream: false });
  sink.end(Buffer.from(JSON.stringify({ choices: [{ index: 0, message, logprobs, finish_reason: finish }] })));
  return Promise.resolve({ kind: "answered", status });
};

const requestOf = (fields: RequestBody, path: string): GatewayRequest => {
  const body: RequestBody = { model: "smart", messages: [{ role: "user", content: "1 + 1?" }], ...fields };
  return {
    id: "r",
    url: path,
    path,
    route: routeOf(path)!,
    headers: {},
    bytes: Buffer.from(JSON.stringify(body)),
    body,
    asked: "smart",
    model: "smart",
    caller: { tenant: "" },
    isStream: body.stream === true,
    cancellation: new Cancellation(),
    observer: DEAF_REQUEST,
    record: new RequestRecord(),
  };
};

async function ask(request: GatewayRequest, sink: BufferSink, next: Handler) {
  const policy = new CascadePolicy({
    cascades: () => new Map([["smart", cascade]]),
    random: () => draw,
    onDecision: (_, decision) => decisions.push(decision),
  });
  await policy.handle(request, sink, next);
  const answer = sink.answer();
  return { head: answer?.head, text: answer?.body.toString() };
}
const modelsAsked = () => asked.map(({ model }) => model);

const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";
const shapes: Record<string, RequestBody> = {
  [MESSAGES]: { max_tokens: 9, system: "Be brief.", top_k: 4 },
  [RESPONSES]: { messages: undefined, input: "1 + 1?", instructions: "Be brief.", store: false, top_k: 4 },
};
const messagesOf = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "1 + 1?" },
];

/** Answers in the form of each path. */
const native: Handler = (request, sink) => {
  if (request.path === CHAT) return upstream(request, sink);
  asked.push({ model: request.model, body: request.body });
  const { text, finish = "stop", status = 200 } = models[request.model]!(request.body);
  const isWhole = finish === "stop";
  const content = [{ type: "text", text }];
  const output = [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }];
  const answer =
    request.path === MESSAGES
      ? { type: "message", content, stop_reason: isWhole ? "end_turn" : "max_tokens" }
      : { object: "response", status: isWhole ? "completed" : "incomplete", output };
  sink.begin({ status, headers: { "content-type": "application/json" }, isEventStream: false });
  sink.end(Buffer.from(JSON.stringify(answer)));
  return Promise.resolve({ kind: "answered", status });
};
const textsOf = (path: string, text: string): unknown => {
  const { content, output } = JSON.parse(text);
  return path === MESSAGES ? content : output.map((item: { content: object[] }) => item.content[0]);
};
const askAt = (path: string, fields: RequestBody = {}) =>
  ask(requestOf({ ...shapes[path], ...fields }, path), new BufferSink(), native);

describe.each([MESSAGES, RESPONSES])("%s", (path) => {
  test("the small model is asked as a chat, whose sure answer the client gets in its own form", async () => {
    const { head, text } = await askAt(path);
    expect([modelsAsked(), decisions]).toEqual([["small"], ["kept"]]);
    expect(asked[0]!.body).toMatchObject({ messages: messagesOf, logprobs: true, top_logprobs: 2, top_k: 4 });
    expect(asked[0]!.body).not.toHaveProperty("stream");
    expect(head!.headers).toEqual({
      "content-type": "application/json",
      "x-millrace-model": "small",
      "x-millrace-cascade": "kept",
    });
    expect(textsOf(path, text!)).toMatchObject([{ text: "2" }]);
    expect(text).not.toContain('logprob":-0.01');
  });

  test("as a stream", async () => {
    const { head, text } = await askAt(path, { stream: true });
    expect([decisions, head!.isEventStream, asked[0]!.body.stream]).toEqual([["kept"], true, undefined]);
    expect(head!.headers["content-type"]).toContain("text/event-stream");
    expect(text).toMatch(
      path === MESSAGES ? /"text":"2"[\s\S]*event: message_stop/ : /"delta":"2"[\s\S]*response.completed/,
    );
  });

  test.each<[string, Said]>([
    ["unsure", { text: "2", logprob: -1 }],
    ["cut off", { text: "2", finish: "length" }],
    ["empty", { text: "" }],
    ["an error", { text: "", status: 500 }],
  ])("an answer that is %s is not kept, and the large model gets the client's own request", async (_, said) => {
    models.small = () => said;
    const { text } = await askAt(path);
    expect([modelsAsked(), decisions]).toEqual([["small", "large"], ["escalated"]]);
    expect(textsOf(path, text!)).toMatchObject([{ text: "2." }]);
    expect(asked[1]!.body).toEqual(requestOf({ ...shapes[path] }, path).body);
  });

  test("the form that is asked for is checked", async () => {
    const format = { type: "json_schema", name: "n", schema: { type: "object", required: ["sum"] } };
    const fields = path === MESSAGES ? { output_config: { format } } : { text: { format } };
    await askAt(path, fields);
    models.small = () => ({ text: '{"sum":2}' });
    await askAt(path, fields);
    expect(decisions).toEqual(["escalated", "kept"]);
  });

  test("without bounds of log-probabilities it is asked as the client asks, and samples are chats with a seed", async () => {
    cascade = { ...cascade, judge: { router: undefined, floor: 0, minLogprob: undefined } };
    await askAt(path);
    expect(asked[0]!.body).toEqual(requestOf({ ...shapes[path] }, path).body);
    cascade = { ...cascade, agreement: { samples: 2, share: 1, temperature: 0.7 } };
    await askAt(path);
    expect(decisions).toEqual(["kept", "kept"]);
    expect(asked.slice(2).map(({ body }) => [body.messages, body.temperature, body.seed])).toEqual([
      [messagesOf, 0.7, 1],
      [messagesOf, 0.7, 2],
    ]);
    asked = [];
    // A request that a chat cannot express is sampled unchanged, without a seed, which not every API has.
    await askAt(path, { never_heard_of: 1 });
    expect(asked.map(({ body }) => [body.never_heard_of, body.seed])).toEqual(Array(3).fill([1, undefined]));
    expect(decisions.at(-1)).toBe("kept");
  });

  test("audits compare the texts of both answers, and end with the client", async () => {
    draw = 0.05;
    models.large = () => ({ text: "2" });
    const { text } = await askAt(path);
    expect(textsOf(path, text!)).toMatchObject([{ text: "2" }]);
    models.small = () => ({ text: "3" });
    await askAt(path);
    expect(guard.report()).toMatchObject({ numSamples: 2, keptShare: 1, loss: { mean: 0.5 } });
    const gone = requestOf({ ...shapes[path] }, path);
    const seen: boolean[] = [];
    await ask(gone, new BufferSink(), async (inner, sink) => {
      gone.cancellation.cancel();
      seen.push(inner.cancellation.isCancelled);
      return native(inner, sink);
    });
    expect([seen, guard.report().numSamples]).toEqual([[true, true], 2]);
  });

  test("an answer in another form is none", async () => {
    await ask(requestOf({ ...shapes[path] }, path), new BufferSink(), (inner, sink) => {
      if (inner.model === "large") return native(inner, sink);
      sink.begin({ status: 200, headers: {}, isEventStream: false });
      sink.end(Buffer.from('{"choices":[{"finish_reason":"stop"}]}'));
      return Promise.resolve({ kind: "answered", status: 200 });
    });
    expect(decisions).toEqual(["escalated"]);
  });
});
