/** Tool use and thinking as the official Anthropic client reads them. */
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
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
  return new Anthropic({ baseURL: fake.server.url, apiKey: "none", maxRetries: 0 });
}

const input_schema = { type: "object" as const, properties: { city: { type: "string" } } };
const tools: Anthropic.Tool[] = [{ name: "weather", input_schema }];
const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Paris?" }];
const request = { model: "fake", max_tokens: 1000, messages, tools };

describe("tool use", () => {
  it("comes as a stream that the client puts together", async () => {
    const client = await connect(() => `${CALL}\n${CALL}`);
    const deltas: string[] = [];
    const stream = client.messages.stream(request);
    stream.on("inputJson", (delta) => deltas.push(delta));
    const message = await stream.finalMessage();
    const block = { type: "tool_use", name: "weather", input: { city: "Paris" } };
    expect(message).toMatchObject({ content: [block, block], stop_reason: "tool_use" });
    expect(deltas.join("")).toBe('{"city": "Paris"}'.repeat(2));
  });

  it("streams Anthropic's events in their order", async () => {
    const client = await connect(() => `hm</think>${CALL}`, thinkingTemplate, 1000);
    const response = await client.messages.create({ ...request, stream: true }).asResponse();
    const events = (await response.text()).trimEnd().split("\n\n");
    const shown = events.map((event) => {
      const { type, index, delta, content_block } = JSON.parse(event.split("data: ")[1] ?? "");
      return [type, index, delta?.type ?? content_block?.type].filter((value) => value !== undefined).join(" ");
    });
    expect(shown).toEqual([
      "message_start",
      "content_block_start 0 thinking",
      "ping",
      "content_block_delta 0 thinking_delta",
      "content_block_delta 0 signature_delta",
      "content_block_stop 0",
      "content_block_start 1 tool_use",
      "content_block_delta 1 input_json_delta",
      "content_block_stop 1",
      "message_delta",
      "message_stop",
    ]);
  });

  it.each([false, true])("runs a conversation to its end (streamed: %s)", async (stream) => {
    const client = await connect(agent);
    const cities: unknown[] = [];
    const weather = {
      name: "weather",
      description: "Weather of a city",
      input_schema,
      parse: (input: unknown) => input,
      run: (input: unknown) => {
        cities.push(input);
        return "sunny";
      },
    };
    const params = { model: "fake", max_tokens: 1000, messages, tools: [weather] };
    const runner = client.beta.messages.toolRunner({ ...params, stream });
    const last = await runner.runUntilDone();
    expect(last).toMatchObject({ content: [{ type: "text", text: "It is sunny." }], stop_reason: "end_turn" });
    expect(cities).toEqual([{ city: "Paris" }]);
  });
});

describe("thinking", () => {
  it("comes as deltas of its own", async () => {
    const client = await connect(() => "hm\n</think>\n\nyes", thinkingTemplate);
    const thoughts: string[] = [];
    const stream = client.messages.stream({
      ...request,
      tools: [],
      thinking: { type: "enabled", budget_tokens: 1024 },
    });
    stream.on("thinking", (delta) => thoughts.push(delta));
    const message = await stream.finalMessage();
    expect(message.content).toMatchObject([
      { type: "thinking", thinking: "hm", signature: "" },
      { type: "text", text: "yes" },
    ]);
    expect(thoughts.join("")).toBe("hm");
    expect(message.usage.output_tokens_details?.thinking_tokens).toBe("hm\n</think>".length);
  });
});

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

/** The parts that must agree in two answers to the same request. */
function withoutIds(message: Anthropic.Message) {
  const blocks = message.content.map((block) => ({ ...block, ...("id" in block ? { id: "" } : {}) }));
  const { stop_reason, stop_sequence, usage } = message;
  return JSON.parse(JSON.stringify({ blocks, stop_reason, stop_sequence, usage }));
}

describe("streamed and whole messages", () => {
  it.each([1, 4])("are the same (%i tokens per step)", async (tokensPerStep) => {
    let answer = "";
    const client = await connect(() => answer, thinkingTemplate, tokensPerStep);
    await fc.assert(
      fc.asyncProperty(
        fc.array(scrap, { minLength: 1, maxLength: 8 }),
        fc.constantFrom<string[]>([], ["arg"], ["a", "}}"]),
        fc.boolean(),
        fc.constantFrom("disabled" as const, "adaptive" as const),
        async (pieces, stop_sequences, hasTools, type) => {
          answer = pieces.join("");
          const params = { ...request, stop_sequences, tools: hasTools ? tools : [], thinking: { type } };
          const whole = withoutIds(await client.messages.create(params));
          const streamed = withoutIds(await client.messages.stream(params).finalMessage());
          // A stream's client completes arguments that break off by its own rules.
          const isWhole = pieces.every((piece) => !piece.startsWith('{"name"')) && stop_sequences.length === 0;
          if (isWhole) expect(streamed).toEqual(whole);
          else
            expect({ ...streamed, blocks: streamed.blocks.length }).toEqual({ ...whole, blocks: whole.blocks.length });
        },
      ),
      { numRuns: 100, seed: 20261121 },
    );
  });
});
