/** /v1/responses with tools and reasoning as the official OpenAI client reads it. */
import fc from "fast-check";
import OpenAI from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { thinkingTemplate, toolTemplate } from "../../test/helpers/chat-templates.js";
import type { FakeServer } from "../../test/helpers/fake-server.js";
import { agent, CALL, startAnswering } from "../../test/helpers/tool-agent.js";

let fake: FakeServer | undefined;

afterEach(async () => {
  expect(fake?.engine.numLive).toBe(0);
  await fake?.server.close();
});

async function connect(answer: (prompt: string) => string, chatTemplate = toolTemplate, tokensPerStep = 1) {
  fake = await startAnswering(answer, chatTemplate, tokensPerStep);
  return new OpenAI({ baseURL: `${fake.server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools: OpenAI.Responses.FunctionTool[] = [{ type: "function", name: "weather", parameters, strict: false }];
const request = { model: "fake", input: "Paris?", tools };

describe("responses with tools", () => {
  it.each([false, true])("run a conversation to its end (streamed: %s)", async (isStreamed) => {
    const client = await connect(agent);
    const ask = (input: OpenAI.Responses.ResponseInput) => {
      const params = { ...request, input };
      return isStreamed ? client.responses.stream(params).finalResponse() : client.responses.create(params);
    };
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Paris?" }];
    const first = await ask(input);
    const calls = first.output as OpenAI.Responses.ResponseOutputItem[];
    const [call] = calls.filter((item) => item.type === "function_call");
    expect(JSON.parse(call!.arguments)).toEqual({ city: "Paris" });
    const result = { type: "function_call_output" as const, call_id: call!.call_id, output: "sunny" };
    const history = first.output as OpenAI.Responses.ResponseInput;
    const last = await ask([...input, ...history, result]);
    expect(last.output).toMatchObject([{ type: "message", content: [{ text: "It is sunny." }] }]);
  });

  it("stream arguments as they come", async () => {
    const client = await connect(() => `${CALL}\n${CALL}`);
    const deltas: string[] = [];
    const snapshots: string[] = [];
    const stream = client.responses.stream(request);
    stream.on("response.function_call_arguments.delta", ({ delta, snapshot }) => {
      deltas.push(delta);
      snapshots.push(snapshot);
    });
    const { output } = await stream.finalResponse();
    const call = { type: "function_call", name: "weather", arguments: '{"city": "Paris"}' };
    expect(output).toMatchObject([call, call]);
    expect(deltas.join("")).toBe(call.arguments.repeat(2));
    expect(snapshots.at(-1)).toBe(call.arguments);
  });

  it("stream the documented events in their order", async () => {
    const client = await connect(() => `hm</think>ok${CALL}`, thinkingTemplate, 1000);
    const stream = await client.responses.create({ ...request, stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    expect(events.map(({ type }) => type.slice("response.".length))).toEqual([
      "created",
      "in_progress",
      "output_item.added",
      "content_part.added",
      "reasoning_text.delta",
      "reasoning_text.done",
      "content_part.done",
      "output_item.done",
      "output_item.added",
      "content_part.added",
      "output_text.delta",
      "output_text.done",
      "content_part.done",
      "output_item.done",
      "output_item.added",
      "function_call_arguments.delta",
      "function_call_arguments.done",
      "output_item.done",
      "completed",
    ]);
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
    const places = events.flatMap((event) => ("output_index" in event ? [event.output_index] : []));
    expect(new Set(places)).toEqual(new Set([0, 1, 2]));
  });
});

interface Shown {
  readonly output: readonly object[];
  readonly status: string | undefined;
  readonly usage: object | undefined;
}

/** The parts that must agree in two answers to the same request. */
function shownOf({ output, status, usage }: OpenAI.Responses.Response): Shown {
  const items = output.map((item) => ({ ...item, id: "", ...("call_id" in item ? { call_id: "" } : {}) }));
  return JSON.parse(JSON.stringify({ output: items, status, usage }));
}

const scrap = fc.constantFrom(
  "<think>",
  "</think>",
  "<tool_call>",
  "</tool_call>",
  '{"name":"weather","arguments":',
  '{"a":"é"}',
  "}",
  "text",
  " \n",
  "<",
  '<tool_call>{"name":"weather","arguments":{"a":[1]}}</tool_call>',
);

describe("streamed and whole responses", () => {
  it.each([1, 4])("are the same, and so are the deltas put together (%i tokens per step)", async (tokensPerStep) => {
    let answer = "";
    const client = await connect(() => answer, thinkingTemplate, tokensPerStep);
    await fc.assert(
      fc.asyncProperty(
        fc.array(scrap, { minLength: 1, maxLength: 8 }),
        fc.record({ hasTools: fc.boolean(), isCut: fc.boolean() }),
        async (pieces, { hasTools, isCut }) => {
          answer = pieces.join("");
          const max_output_tokens = Math.ceil((Buffer.byteLength(answer) + 1) / (isCut ? 2 : 1));
          const params = { ...request, max_output_tokens, tools: hasTools ? tools : [] };
          const whole = await client.responses.create(params);
          const texts: string[] = [];
          let last: OpenAI.Responses.Response | undefined;
          for await (const event of await client.responses.create({ ...params, stream: true })) {
            if ("response" in event) last = event.response;
            if (event.type === "response.output_item.added") texts[event.output_index] = "";
            if ("delta" in event && "output_index" in event) texts[event.output_index] += String(event.delta);
          }
          expect(shownOf(last!)).toEqual(shownOf(whole));
          const wholeTexts = whole.output.map((item) => {
            if (item.type === "function_call") return item.arguments;
            const [part] = "content" in item ? (item.content as { text: string }[]) : [];
            return part?.text;
          });
          expect(texts).toEqual(wholeTexts);
        },
      ),
      { numRuns: 100, seed: 20261121 },
    );
  });
});
