/** Tool calls and reasoning as the official OpenAI client reads them. */
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

async function connect(answer: (prompt: string) => string, chatTemplate = toolTemplate) {
  fake = await startAnswering(answer, chatTemplate);
  return new OpenAI({ baseURL: `${fake.server.url}/v1`, apiKey: "none", maxRetries: 0 });
}

const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools: OpenAI.ChatCompletionTool[] = [{ type: "function", function: { name: "weather", parameters } }];
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Paris?" }];
const request = { model: "fake", messages, tools };

describe("tool calls", () => {
  it("come whole", async () => {
    const client = await connect(agent);
    const answer = await client.chat.completions.create(request);
    const choice = answer.choices[0]!;
    expect(choice.finish_reason).toBe("tool_calls");
    expect(choice.message.content).toBe("I look.");
    expect(choice.message.tool_calls).toMatchObject([
      { type: "function", function: { name: "weather", arguments: '{"city": "Paris"}' } },
    ]);
  });

  it("come as a stream that the client puts together", async () => {
    const client = await connect(() => `${CALL}\n${CALL}`);
    const deltas: string[] = [];
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    stream.on("tool_calls.function.arguments.delta", ({ arguments_delta }) => deltas.push(arguments_delta));
    const choice = (await stream.finalChatCompletion()).choices[0]!;
    expect(choice.finish_reason).toBe("tool_calls");
    expect(choice.message.content).toBeNull();
    expect(choice.message.tool_calls?.map((call) => call.function)).toMatchObject([
      { name: "weather", arguments: '{"city": "Paris"}' },
      { name: "weather", arguments: '{"city": "Paris"}' },
    ]);
    expect(deltas.join("")).toBe('{"city": "Paris"}'.repeat(2));
    expect(deltas.length).toBeGreaterThan(10);
  });

  it("run a conversation to its end, whole and streamed", async () => {
    const client = await connect(agent);
    for (const stream of [false, true]) {
      const cities: string[] = [];
      const weather = {
        name: "weather",
        description: "Weather of a city",
        parameters,
        parse: JSON.parse,
        function: ({ city }: { city: string }) => {
          cities.push(city);
          return "sunny";
        },
      };
      const runTools = [{ type: "function" as const, function: weather }];
      const runner = stream
        ? client.chat.completions.runTools({ model: "fake", messages, tools: runTools, stream: true })
        : client.chat.completions.runTools({ model: "fake", messages, tools: runTools });
      expect(await runner.finalContent()).toBe("It is sunny.");
      expect(cities).toEqual(["Paris"]);
    }
  });

  it("can be forced", async () => {
    const client = await connect(() => ' {"city": "Rome"}}\n</tool_call>');
    const answer = await client.chat.completions.create({
      ...request,
      tool_choice: { type: "function", function: { name: "weather" } },
    });
    expect(answer.choices[0]?.message.tool_calls).toMatchObject([{ function: { arguments: '{"city": "Rome"}' } }]);
  });
});

describe("reasoning", () => {
  it("comes as deltas of its own, counted in the usage", async () => {
    const client = await connect(() => "hm\n</think>\n\nyes", thinkingTemplate);
    const stream = await client.chat.completions.create({
      model: "fake",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let reasoning = "";
    let content = "";
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      const delta = chunk.choices[0]?.delta as { content?: string | null; reasoning?: string } | undefined;
      reasoning += delta?.reasoning ?? "";
      content += delta?.content ?? "";
      usage = chunk.usage;
    }
    expect({ reasoning, content }).toEqual({ reasoning: "hm", content: "yes" });
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe("hm\n</think>".length);
  });
});
