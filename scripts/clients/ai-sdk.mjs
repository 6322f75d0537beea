/**
 * Vercel's AI SDK: an object beside tools, a forced call with its result sent back, streams, and responses that
 * continue by reference.
 */
import assert from "node:assert";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { SERVER_URL, MODEL } = process.env;
const baseURL = `${SERVER_URL}/v1`;
const chat = createOpenAICompatible({
  name: "server",
  baseURL,
  apiKey: "none",
  supportsStructuredOutputs: true,
  includeUsage: true,
})(MODEL);
const openai = createOpenAI({ baseURL, apiKey: "none" });

const city = z.enum(["Bern", "Paris"]);
const weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city }),
  execute: async (input) => `${input.city}: cloudy`,
});
const schema = z.object({ city, sky: z.enum(["clear", "cloudy"]) });
/** A small model under a forced call never stops calling by itself. */
const providerOptions = { openai: { parallelToolCalls: false }, server: { parallel_tool_calls: false } };
const prompt = "What is the weather in Bern?";

for (const model of [chat, openai.chat(MODEL), openai.responses(MODEL)]) {
  const answer = await generateText({
    model,
    prompt,
    providerOptions,
    maxOutputTokens: 200,
    temperature: 0,
    tools: { weather },
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    stopWhen: stepCountIs(3),
    output: Output.object({ schema }),
  });
  assert.ok(answer.steps[0].toolCalls.length > 0, "no call");
  assert.ok(schema.safeParse(answer.output).success, JSON.stringify(answer.output));
}

const free = await generateText({
  model: chat,
  prompt,
  maxOutputTokens: 200,
  tools: { weather },
  output: Output.object({ schema }),
});
assert.ok(free.finishReason === "tool-calls" || schema.safeParse(free.output).success);

const streamed = streamText({ model: chat, prompt: "Name an animal.", maxOutputTokens: 20 });
let text = "";
for await (const delta of streamed.textStream) text += delta;
assert.ok(text.length > 0 && (await streamed.usage).outputTokens > 0);

const first = await generateText({ model: openai.responses(MODEL), prompt: "Name an animal.", maxOutputTokens: 20 });
const messages = [
  { role: "user", content: "Name an animal." },
  ...first.response.messages,
  { role: "user", content: "Another." },
];
await generateText({ model: openai.responses(MODEL), messages, maxOutputTokens: 20 });
const previousResponseId = first.providerMetadata.openai.responseId;
await generateText({
  model: openai.responses(MODEL),
  prompt: "Another.",
  maxOutputTokens: 20,
  providerOptions: { openai: { previousResponseId } },
});
