/**
 * A streamed answer, joined, equals the complete answer, and both equal a plain reading of the ids, for any number of
 * tokens per step.
 */
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { thinkingTemplate, toolTemplate } from "../../test/helpers/chat-templates.js";
import { type FakeServer, startFakeServer } from "../../test/helpers/fake-server.js";
import { EOS_ID, fakeTokenizer, IM_END_ID } from "../../test/helpers/fake-tokenizer.js";
import { cases } from "../../test/helpers/long.js";

interface Outcome {
  readonly text: string;
  readonly finishReason: string | null;
  readonly stopReason: unknown;
  readonly tokens: readonly string[];
  readonly offsets: readonly number[];
  readonly numTokens: number;
}

interface Choice {
  readonly text: string;
  readonly finish_reason: string | null;
  readonly stop_reason: unknown;
  readonly logprobs: { readonly tokens: string[]; readonly text_offset: number[] } | null;
}

interface Body {
  readonly choices: readonly Choice[];
  readonly usage: { readonly completion_tokens: number } | null;
}

let fake: FakeServer | undefined;
let script: readonly number[] = [];

afterEach(async () => {
  await fake?.server.close();
});

async function complete(fields: object, stream: boolean): Promise<Outcome> {
  const request = { prompt: "p", stream, ...(stream ? { stream_options: { include_usage: true } } : {}), ...fields };
  const response = await fetch(`${fake?.server.url}/v1/completions`, { method: "POST", body: JSON.stringify(request) });
  expect(response.status).toBe(200);
  const text = await response.text();
  const bodies: Body[] = stream
    ? text
        .split("\n\n")
        .filter((event) => event.startsWith("data: {"))
        .map((event) => JSON.parse(event.slice(6)))
    : [JSON.parse(text)];
  if (stream) expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  const choices = bodies.flatMap((body) => body.choices);
  return {
    text: choices.map((choice) => choice.text).join(""),
    finishReason: choices.at(-1)?.finish_reason ?? null,
    stopReason: choices.at(-1)?.stop_reason,
    tokens: choices.flatMap((choice) => choice.logprobs?.tokens ?? []),
    offsets: choices.flatMap((choice) => choice.logprobs?.text_offset ?? []),
    numTokens: bodies.at(-1)?.usage?.completion_tokens ?? -1,
  };
}

/**
 * The text from a reader of the complete string. The first stop string to be complete wins; of several, the longest.
 */
function readPlainly(ids: readonly number[], stops: readonly string[]): string {
  const text = fakeTokenizer.decode(ids);
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (ending !== undefined) return text.slice(0, end - ending.length);
  }
  return text;
}

/** Bytes that often form characters, half characters and stop strings. */
const scriptId = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(97, 98, 99) },
  { weight: 3, arbitrary: fc.constantFrom(0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80, 0xff) },
  { weight: 1, arbitrary: fc.constantFrom(256, 258, EOS_ID, IM_END_ID) },
);
const stopString = fc.stringMatching(/^[abcé]{1,3}$/);

describe("streamed and whole answers", () => {
  it.each([1, 3])("are the same text, tokens, end and count (%i tokens per step)", async (tokensPerStep) => {
    fake = await startFakeServer({ tokensPerStep, script: () => script });
    await fc.assert(
      fc.asyncProperty(
        fc.array(scriptId, { minLength: 1, maxLength: 30 }),
        fc.array(stopString, { maxLength: 3 }),
        fc.boolean(),
        async (ids, stops, isScored) => {
          script = ids;
          const fields = { max_tokens: ids.length, stop: stops, ...(isScored ? { logprobs: 0 } : {}) };
          const whole = await complete(fields, false);
          expect(await complete(fields, true)).toEqual(whole);
          const end = ids.findIndex((id) => fakeTokenizer.stopIds.has(id));
          expect(whole.text).toBe(readPlainly(end === -1 ? ids : ids.slice(0, end), stops));
          if (isScored) expect(whole.tokens).toHaveLength(whole.numTokens);
          expect(whole.offsets).toEqual([...whole.offsets].sort((a, b) => a - b));
        },
      ),
      { numRuns: cases(25, 120), seed: 20261121 },
    );
    expect(fake.engine.numLive).toBe(0);
  });
});

interface Message {
  content?: string | null;
  reasoning?: string;
  reasoning_content?: string;
  tool_calls?: { index?: number; id?: string; type?: string; function: { name?: string; arguments: string } }[];
}

interface ChatChoice {
  readonly index: number;
  readonly message?: Message;
  readonly delta?: Message;
  readonly finish_reason: string | null;
  readonly stop_reason?: unknown;
  readonly logprobs: { readonly content: readonly { readonly bytes: readonly number[] }[] } | null;
}

interface ChatBody {
  readonly choices: readonly ChatChoice[];
  readonly usage: object | null;
}

/** A choice's messages or deltas, merged, without ids: two requests never share ids. */
function mergeChoice(choices: readonly ChatChoice[]) {
  const calls: { name: string; arguments: string }[] = [];
  const ids = new Set<string>();
  let content = "";
  let reasoning = "";
  for (const { message, delta } of choices) {
    const { content: text, reasoning: thought, reasoning_content: twin, tool_calls = [] } = message ?? delta ?? {};
    expect(twin).toBe(thought);
    content += text ?? "";
    reasoning += thought ?? "";
    for (const [place, { index = place, id, function: called }] of tool_calls.entries()) {
      if (id !== undefined) ids.add(id);
      // Only a call's first delta has its name.
      expect(called.name === undefined).toBe(calls[index] !== undefined);
      calls[index] ??= { name: called.name ?? "", arguments: "" };
      calls[index].arguments += called.arguments;
    }
  }
  expect(ids.size).toBe(calls.length);
  const last = choices.at(-1)!;
  const bytes = choices.flatMap((choice) => choice.logprobs?.content.flatMap((entry) => entry.bytes) ?? []);
  const tokens = Buffer.from(bytes).toString();
  return { content, reasoning, calls, tokens, finishReason: last.finish_reason, stopReason: last.stop_reason };
}

async function chat(fields: object, numChoices: number, stream: boolean) {
  const options = stream ? { stream, stream_options: { include_usage: true } } : {};
  const request = { messages: [{ role: "user", content: "hi" }], n: numChoices, ...options, ...fields };
  const url = `${fake?.server.url}/v1/chat/completions`;
  const response = await fetch(url, { method: "POST", body: JSON.stringify(request) });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const events = text.split("\n\n").filter((event) => event.startsWith("data: {"));
  const bodies: ChatBody[] = stream ? events.map((event) => JSON.parse(event.slice(6))) : [JSON.parse(text)];
  const choices = bodies.flatMap((body) => body.choices);
  const merged = Array.from({ length: numChoices }, (_, index) =>
    mergeChoice(choices.filter((choice) => choice.index === index)),
  );
  return { merged, usage: bodies.at(-1)?.usage };
}

const scrap = fc.constantFrom(
  "<think>",
  "</think>",
  "<tool_call>",
  "</tool_call>",
  '{"name":"f","arguments":',
  '{"a":"é"}',
  "}",
  "text",
  " \n",
  "<",
  '<tool_call>{"name":"f","arguments":{"a":[1]}}</tool_call>',
  '<tool_call>{"name":"g","arguments":{}}</tool_call>',
);
const chatText = fc.array(scrap, { minLength: 1, maxLength: 8 }).map((pieces) => pieces.join(""));
const functionTools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
const toolChoice = fc.constantFrom("auto", "none", "required", { type: "function", function: { name: "f" } });

describe("streamed and whole chat answers", () => {
  it.each([
    ["tools", 1, toolTemplate],
    ["reasoning", 1, thinkingTemplate],
    ["reasoning", 4, thinkingTemplate],
  ] as const)("are the same message with %s, %i tokens per step", async (_name, tokensPerStep, chatTemplate) => {
    fake = await startFakeServer({ tokensPerStep, script: () => script }, { chatTemplate });
    await fc.assert(
      fc.asyncProperty(
        chatText,
        fc.constantFrom([], ["arg"], ["a", "}}"]),
        toolChoice,
        fc.record({
          logprobs: fc.boolean(),
          parallel_tool_calls: fc.boolean(),
          hasTools: fc.boolean(),
          isCut: fc.boolean(),
        }),
        async (text, stop, choice, { hasTools, isCut, ...rest }) => {
          script = [...Buffer.from(text), EOS_ID];
          const asked = hasTools ? { tools: functionTools, tool_choice: choice } : {};
          const fields = { stop, ...asked, ...rest, max_tokens: Math.ceil(script.length / (isCut ? 2 : 1)) };
          const whole = await chat(fields, 2, false);
          expect(await chat(fields, 2, true)).toEqual(whole);
          // A forced call's opening is not among the answer's tokens.
          if (!rest.logprobs || (hasTools && !["auto", "none"].includes(choice as string))) return;
          for (const { content, tokens } of whole.merged) expect(tokens).toBe(content);
        },
      ),
      { numRuns: cases(30, 150), seed: 20261121 },
    );
    expect(fake.engine.numLive).toBe(0);
  });
});
