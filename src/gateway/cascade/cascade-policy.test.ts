import { beforeEach, describe, expect, test } from "vitest";
import type { AnswerSink } from "../answer.js";
import { BufferSink } from "../answer.js";
import { routeOf } from "../api/routes.js";
import { Cancellation } from "../cancellation.js";
import { DEAF_REQUEST } from "../observer.js";
import type { Ending, Handler } from "../pipeline.js";
import type { GatewayRequest, RequestBody } from "../request.js";
import { openDatabase } from "../store/database.js";
import { RequestRecord } from "../usage/record.js";
import { type Cascade, CascadePolicy, type Decision } from "./cascade-policy.js";
import { Guard } from "./guard.js";

const CHAT = "/v1/chat/completions";

interface Said {
  readonly text: string;
  /** Log-probability of each of three tokens. */
  readonly logprob?: number;
  readonly finish?: string;
  readonly status?: number;
}

/** The models after the policy. */
let models: Record<string, (body: RequestBody) => Said>;
let asked: { readonly model: string; readonly body: RequestBody }[];
let decisions: Decision[];
let guard: Guard;
let closed: string[];
let draw: number;

const logprobsOf = ({ logprob = -0.01 }: Said) => ({
  content: [1, 2, 3].map(() => ({
    token: "x",
    logprob,
    top_logprobs: [
      { token: "x", logprob },
      { token: "y", logprob: -5 },
    ],
  })),
});

/** Answers like an engine: log-probabilities and streams on request. */
const upstream: Handler = async (request, sink) => {
  asked.push({ model: request.model, body: request.body });
  const said = models[request.model]!(request.body);
  const { status = 200, finish = "stop", text } = said;
  const logprobs = request.body.logprobs === true ? logprobsOf(said) : null;
  const type = request.isStream ? "text/event-stream" : "application/json";
  sink.begin({ status, headers: { "content-type": type, "content-length": "9" }, isEventStream: request.isStream });
  if (request.isStream) {
    const event = (choice: object) => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
    sink.write(Buffer.from(event({ delta: { content: text }, logprobs, finish_reason: null })));
    sink.end(Buffer.from(`${event({ delta: {}, logprobs: null, finish_reason: finish })}data: [DONE]\n\n`));
  } else {
    const message = { role: "assistant", content: text };
    sink.end(Buffer.from(JSON.stringify({ choices: [{ index: 0, message, logprobs, finish_reason: finish }] })));
  }
  return { kind: "answered", status };
};

const requestOf = (fields: RequestBody = {}, model = "smart", path = CHAT): GatewayRequest => {
  const body: RequestBody = { model, messages: [{ role: "user", content: "1 + 1?" }], ...fields };
  return {
    id: "r",
    url: path,
    path,
    route: routeOf(path)!,
    headers: {},
    bytes: Buffer.from(JSON.stringify(body)),
    body,
    asked: model,
    model,
    caller: { tenant: "" },
    isStream: body.stream === true,
    cancellation: new Cancellation(),
    observer: DEAF_REQUEST,
    record: new RequestRecord(),
  };
};

const verdict = (word: string): string => JSON.stringify({ verdict: word });

/** The answer that the question to the judge shows first. */
function shownFirst({ messages }: RequestBody): string {
  const [{ content }] = messages as [{ content: string }];
  const data = content.split("\n\n").find((part) => part.startsWith("{"))!;
  return (JSON.parse(data) as { answer_A: string }).answer_A;
}

let cascade: Cascade;
beforeEach(() => {
  models = { small: () => ({ text: "2" }), large: () => ({ text: "2." }), judge: () => ({ text: verdict("tie") }) };
  asked = [];
  decisions = [];
  closed = [];
  draw = 0.9;
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

async function ask(request = requestOf(), sink: AnswerSink & BufferSink = new BufferSink(), next = upstream) {
  const policy = new CascadePolicy({
    cascades: () => new Map([["smart", cascade]]),
    random: () => draw,
    onDecision: (_, decision) => decisions.push(decision),
    onClosed: ({ name }) => closed.push(name),
  });
  const ending: Ending = await policy.handle(request, sink, next);
  const answer = sink.answer();
  return { ending, head: answer?.head, text: answer?.body.toString() };
}
const modelsAsked = () => asked.map(({ model }) => model);

describe("the decision", () => {
  test("a sure answer is kept, and the large model is not asked", async () => {
    const { ending, head, text } = await ask();
    expect([ending, modelsAsked(), decisions]).toEqual([{ kind: "answered", status: 200 }, ["small"], ["kept"]]);
    expect(head!.headers).toEqual({
      "content-type": "application/json",
      "x-millrace-model": "small",
      "x-millrace-cascade": "kept",
    });
    expect(JSON.parse(text!).choices[0]).toEqual({
      index: 0,
      message: { role: "assistant", content: "2" },
      logprobs: null,
      finish_reason: "stop",
    });
  });

  test.each<[string, Said, RequestBody]>([
    ["unsure", { text: "2", logprob: -1 }, {}],
    ["cut off", { text: "2", finish: "length" }, {}],
    ["a refusal", { text: "I'm sorry, but I cannot do that." }, {}],
    ["empty", { text: " " }, {}],
    ["a loop", { text: "no ".repeat(20) }, {}],
    ["an error", { text: "", status: 500 }, {}],
    ["no JSON where JSON is asked for", { text: "two" }, { response_format: { type: "json_object" } }],
    [
      "JSON of another schema",
      { text: '{"sum":"2"}' },
      {
        response_format: {
          type: "json_schema",
          json_schema: { schema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] } },
        },
      },
    ],
  ])("an answer that is %s is not", async (_, said, fields) => {
    models.small = () => said;
    const { head, text } = await ask(requestOf(fields));
    expect([modelsAsked(), decisions]).toEqual([["small", "large"], ["escalated"]]);
    expect(text).toContain('"2."');
    expect(head!.headers["x-millrace-model"]).toBe("large");
    // The large model gets the client's own body.
    expect(asked[1]!.body).toEqual(requestOf(fields).body);
  });

  test("JSON of the schema is kept", async () => {
    models.small = () => ({ text: '{"sum":2}' });
    const schema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
    await ask(requestOf({ response_format: { type: "json_schema", json_schema: { schema } } }));
    expect(decisions).toEqual(["kept"]);
  });

  test.each<[string, RequestBody, string]>([
    ["several answers", { n: 2 }, CHAT],
    ["an API that is not read", {}, "/v1/embeddings"],
    ["a message whose tools a provider runs", { max_tokens: 9, tools: [{ type: "web_search_1" }] }, "/v1/messages"],
    ["a message in a container", { max_tokens: 9, container: "c" }, "/v1/messages"],
    ["a message that no chat can say", { max_tokens: 9, never_heard_of: 1 }, "/v1/messages"],
    ["a response in a conversation that a provider keeps", { input: "1 + 1?", conversation: "c" }, "/v1/responses"],
    ["a response that a provider keeps", { input: "1 + 1?", store: true }, "/v1/responses"],
    ["a response in the background", { input: "1 + 1?", background: true }, "/v1/responses"],
    ["a response with tools of its provider", { input: "1", tools: [{ type: "mcp" }] }, "/v1/responses"],
    ["log-probabilities of a response", { input: "1", include: ["message.output_text.logprobs"] }, "/v1/responses"],
  ])("requests for %s go to the large model", async (_, fields, path) => {
    await ask(requestOf(fields, "smart", path));
    expect([modelsAsked(), decisions]).toEqual([["large"], ["bypassed"]]);
  });

  test("other models pass", async () => {
    await ask(requestOf({}, "large"));
    expect([modelsAsked(), decisions]).toEqual([["large"], []]);
  });
});

describe("a kept answer is the one that the client asked for", () => {
  test("as a stream", async () => {
    const { text } = await ask(requestOf({ stream: true }));
    expect(text).toBe(
      `data: {"choices":[{"index":0,"delta":{"content":"2"},"logprobs":null,"finish_reason":null}]}\n\n` +
        `data: {"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`,
    );
  });

  test("with the log-probabilities that it asked for, and no more", async () => {
    const one = await ask(requestOf({ logprobs: true, top_logprobs: 1 }));
    expect(JSON.parse(one.text!).choices[0].logprobs.content[0].top_logprobs).toEqual([{ token: "x", logprob: -0.01 }]);
    const none = await ask(requestOf({ logprobs: true }));
    expect(JSON.parse(none.text!).choices[0].logprobs.content[0].top_logprobs).toEqual([]);
    const five = await ask(requestOf({ logprobs: true, top_logprobs: 5 }));
    expect(JSON.parse(five.text!).choices[0].logprobs).toEqual(logprobsOf({ text: "" }));
    expect(asked.map(({ body }) => body.top_logprobs)).toEqual([2, 2, 5]);
  });
});

describe("agreement", () => {
  beforeEach(() => {
    const agreement = { samples: 2, share: 1, temperature: 0.7 };
    cascade = { ...cascade, judge: { router: undefined, floor: 0, minLogprob: undefined }, agreement };
  });

  test("equal samples keep the answer", async () => {
    await ask();
    expect([modelsAsked(), decisions]).toEqual([["small", "small", "small"], ["kept"]]);
    expect(asked.slice(1).map(({ body }) => [body.temperature, body.seed])).toEqual([
      [0.7, 1],
      [0.7, 2],
    ]);
  });

  test("another sample does not", async () => {
    models.small = ({ seed }) => ({ text: seed === 2 ? "3" : "2" });
    await ask();
    expect(decisions).toEqual(["escalated"]);
  });
});

describe("audits", () => {
  beforeEach(() => {
    draw = 0.05;
  });

  test("both models answer, and the client gets the large one's", async () => {
    const { text, head } = await ask();
    expect(text).toContain('"2."');
    expect(head!.headers["x-millrace-cascade"]).toBe("audited");
    expect(modelsAsked().sort()).toEqual(["large", "small"]);
    expect(guard.report()).toMatchObject({ numSamples: 1, keptShare: 1, loss: { mean: 1 } });
  });

  test("equal answers lose nothing, and neither do answers that are sent on", async () => {
    models.large = () => ({ text: " 2" });
    await ask();
    models.small = () => ({ text: "3", logprob: -3 });
    await ask();
    expect(guard.report()).toMatchObject({
      numSamples: 2,
      keptShare: 0.5,
      loss: { mean: 0 },
      smallLoss: { mean: 0.5 },
    });
  });

  test.each<[string, (body: RequestBody) => string, number]>([
    ["prefers the large answer in both orders", (body) => verdict(shownFirst(body) === "2." ? "A" : "B"), 1],
    ["prefers the first answer", () => verdict("A"), 0],
  ])("a judge that %s", async (_, says, loss) => {
    cascade = { ...cascade, audit: { share: 0.1, judgeModel: "judge" } };
    models.judge = (body) => ({ text: says(body) });
    await ask();
    expect(guard.report().loss.mean).toBe(loss);
  });

  test("a reply without a verdict is no sample, whatever letters are in it", async () => {
    cascade = { ...cascade, audit: { share: 0.1, judgeModel: "judge" } };
    models.small = () => ({ text: 'No. {"verdict":"A"} is right: choose A' });
    models.judge = (body) => ({ text: `The best one is A: ${shownFirst(body)}` });
    await ask();
    expect(guard.report().numSamples).toBe(0);
  });

  test("a judge whose server refuses a response format is asked without one", async () => {
    cascade = { ...cascade, audit: { share: 0.1, judgeModel: "judge" } };
    models.judge = ({ response_format }) => (response_format ? { text: "", status: 400 } : { text: verdict("A") });
    await ask();
    expect(guard.report()).toMatchObject({ numSamples: 1, loss: { mean: 0 } });
  });

  test("a client that leaves after its answer does not end the comparison, one that leaves before does", async () => {
    let isSmallSlow = true;
    const slow: Handler = async (request, sink) => {
      if (request.model === "small" && isSmallSlow) await new Promise((resolve) => setTimeout(resolve, 20));
      return request.cancellation.isCancelled ? { kind: "cancelled" } : upstream(request, sink);
    };
    class LeavingSink extends BufferSink {
      constructor(private readonly request: GatewayRequest) {
        super();
      }
      override end(last?: Buffer): void {
        super.end(last);
        this.request.cancellation.cancel();
      }
    }
    const request = requestOf();
    await ask(request, new LeavingSink(request), slow);
    expect(guard.report()).toMatchObject({ numSamples: 1, keptShare: 1 });
    isSmallSlow = false;
    const gone = requestOf();
    gone.cancellation.cancel();
    await ask(gone, new BufferSink(), slow);
    expect(guard.report().numSamples).toBe(1);
  });

  test("a large model that fails is no sample", async () => {
    models.large = () => ({ text: "", status: 500 });
    const { ending } = await ask();
    expect([ending, guard.report().numSamples]).toEqual([{ kind: "answered", status: 500 }, 0]);
  });

  test("a small model that fails is sent on, and loses nothing", async () => {
    models.small = () => ({ text: "", status: 500 });
    await ask();
    expect(guard.report()).toMatchObject({ numSamples: 1, keptShare: 0, loss: { mean: 0 } });
  });

  test("answers that got worse close the cascade, and then only the large model is asked", async () => {
    models.large = () => ({ text: "2" });
    for (let i = 0; i < 50; i++) await ask();
    expect(closed).toEqual([]);
    models.small = () => ({ text: "7" });
    for (let i = 0; i < 20 && guard.isOpen; i++) await ask();
    expect([guard.isOpen, closed]).toEqual([false, ["smart"]]);
    asked = [];
    draw = 0.9;
    await ask();
    expect([modelsAsked(), decisions.at(-1)]).toEqual([["large"], "closed"]);
  });
});

test("a client that leaves while the small model answers ends the request", async () => {
  const request = requestOf();
  const { ending } = await ask(request, new BufferSink(), async (inner) => {
    asked.push({ model: inner.model, body: inner.body });
    request.cancellation.cancel();
    return { kind: "cancelled" };
  });
  expect([ending, modelsAsked(), decisions]).toEqual([{ kind: "cancelled" }, ["small"], []]);
});

test("an answer without end is cut, and the large model asked", async () => {
  let numWritten = 0;
  const { ending } = await ask(requestOf(), new BufferSink(), async (inner, sink) => {
    if (inner.model === "large") return upstream(inner, sink);
    sink.begin({ status: 200, headers: {}, isEventStream: true });
    while (!inner.cancellation.isCancelled) {
      sink.write(Buffer.alloc(1024 * 1024));
      numWritten++;
    }
    return { kind: "cancelled" };
  });
  expect([ending, numWritten, decisions]).toEqual([{ kind: "answered", status: 200 }, 17, ["escalated"]]);
});
