/** Chat completions of a model with Harmony: the messages for its template, and the parts of its answers. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { harmonyTemplate } from "../../../test/helpers/chat-templates.js";
import { ChatTemplate } from "../../text/template/chat-template.js";
import type { AppOptions } from "../http/context.js";

const tools = [{ type: "function", function: { name: "now" } }];
const strict = [{ type: "function", function: { name: "now", strict: true, parameters: { type: "object" } } }];
const messages: object[] = [{ role: "user", content: "hi" }];
const THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
const CALL = '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"zone": 1}';

async function post(fields: object, script = "", overrides: Partial<AppOptions> = {}) {
  const options = { chatTemplate: harmonyTemplate, ...overrides };
  const answer = await ask("/v1/chat/completions", { messages, ...fields }, writing(script), options);
  return { ...answer, choice: answer.body.choices?.[0] };
}

describe("an answer", () => {
  it("is its final message, with the analysis as reasoning", async () => {
    const { choice, body } = await post({ logprobs: true }, `${THOUGHT}<|channel|>final<|message|>Yes.`);
    expect(choice).toMatchObject({
      finish_reason: "stop",
      message: { content: "Yes.", reasoning_content: "Hm.", reasoning: "Hm." },
    });
    expect(choice.message).not.toHaveProperty("tool_calls");
    expect((choice.logprobs.content as { token: string }[]).map(({ token }) => token).join("")).toBe("Yes.");
    const { reasoning_tokens } = body.usage.completion_tokens_details as { reasoning_tokens: number };
    expect(reasoning_tokens).toBe(
      "<|channel|>analysis<|message|>Hm.<|end|>".length - "<|channel|>analysis<|message|".length,
    );
  });

  it("keeps the analysis as content where no reasoning is told apart", async () => {
    const { choice } = await post({}, `${THOUGHT}<|channel|>final<|message|>Yes.`, { reasoningParser: "none" });
    expect(choice.message).toMatchObject({ content: "Hm.\n\nYes." });
    expect(choice.message).not.toHaveProperty("reasoning_content");
  });

  it("is a call where it goes to a function that may be called", async () => {
    const { choice, prompt } = await post({ tools }, `${THOUGHT}${CALL}<|call|>`);
    expect(prompt).toContain("//  now;");
    expect(choice).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: null,
        reasoning: "Hm.",
        tool_calls: [{ function: { name: "now", arguments: '{"zone": 1}' } }],
      },
    });
    expect((await post({}, `${THOUGHT}${CALL}`)).choice.message).toMatchObject({ content: '{"zone": 1}' });
  });

  it("begins with the call or the final message where that is required", async () => {
    const named = await post({ tools, tool_choice: { type: "function", function: { name: "now" } } }, "{}");
    expect(
      named.prompt.endsWith("<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>"),
    ).toBe(true);
    expect(named.choice.message.tool_calls).toMatchObject([{ function: { name: "now", arguments: "{}" } }]);
    const any = await post({ tools, tool_choice: "required" }, "now <|constrain|>json<|message|>{}");
    expect(any.prompt.endsWith("<|start|>assistant<|channel|>commentary to=functions.")).toBe(true);
    expect(any.choice.message.tool_calls).toMatchObject([{ function: { name: "now", arguments: "{}" } }]);
    const formed = await post({ response_format: { type: "json_object" } }, "{}");
    expect(formed.prompt.endsWith("<|start|>assistant<|channel|>final<|message|>")).toBe(true);
    expect(formed.choice.message.content).toBe("{}");
  });

  it("goes on with a final message that the request begins", async () => {
    const begun = [...messages, { role: "assistant", content: "Ye" }];
    const { prompt, choice } = await post({ messages: begun, continue_final_message: true }, "s.<|return|>");
    expect(prompt.endsWith("<|start|>assistant<|channel|>final<|message|>Ye")).toBe(true);
    expect(choice.message).toMatchObject({ content: "s." });
  });

  it("is held to messages on channels where a function is strict or a form stands beside tools", async () => {
    expect((await post({ tools })).grammar).toBeUndefined();
    const { grammar } = await post({ tools: strict });
    expect(grammar).toContain('" to=functions.now<|channel|>commentary"');
    expect(grammar).toContain('"<|channel|>final<|message|>"');
    const formed = await post({ tools, response_format: { type: "json_object" } });
    expect(formed.grammar).toContain('"<|channel|>final<|message|>"');
  });
});

describe("the template", () => {
  const call = { id: "call_1", type: "function", function: { name: "now", arguments: "{}" } };
  const called = { role: "assistant", content: "I look.", reasoning_content: "Why?", tool_calls: [call] };
  const result = { role: "tool", tool_call_id: "call_1", content: "12" };

  it("receives the reasoning before a call until the turn is answered", async () => {
    const { prompt } = await post({ messages: [...messages, called, result] });
    expect(prompt).toContain(
      "<|start|>assistant<|channel|>analysis<|message|>Why?<|end|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
    );
    const answered = { role: "assistant", content: "Noon.", reasoning_content: "So." };
    const later = await post({ messages: [...messages, called, result, answered, ...messages] });
    expect(later.prompt).not.toMatch(/Why|So\./);
    expect(later.prompt).toContain("<|channel|>final<|message|>Noon.<|end|>");
  });

  it("receives no content of a message as an empty text, and no list of no calls", async () => {
    const bare = { role: "assistant", content: null, tool_calls: [call] };
    const { prompt } = await post({ messages: [...messages, bare, result] });
    expect(prompt).toContain("<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>");
    for (const none of [[], null]) {
      const said = { role: "assistant", content: "Noon.", tool_calls: none };
      const later = await post({ messages: [...messages, said, ...messages] });
      expect(later.prompt).toContain("<|start|>assistant<|channel|>final<|message|>Noon.<|end|>");
    }
  });

  it("receives the content beside a call whose reasoning is empty", async () => {
    const inner = `{{- messages[1].content }}|{{ messages[1].thinking is defined }}`;
    const template = new ChatTemplate(`${harmonyTemplate.source}${inner}`);
    const bare = { ...called, reasoning_content: "" };
    const { prompt } = await post({ messages: [...messages, bare, result] }, "", { chatTemplate: template });
    expect(prompt.endsWith("I look.|False")).toBe(true);
  });

  it("receives several calls of one message as messages, each with its result", async () => {
    const other = { ...call, id: "call_2", function: { name: "get", arguments: '{"a": 1}' } };
    const results = [
      { ...result, tool_call_id: "call_2", content: "two" },
      { ...result, content: "one" },
    ];
    const { prompt } = await post({ messages: [...messages, { ...called, tool_calls: [call, other] }, ...results] });
    expect(prompt).toContain(
      "<|channel|>analysis<|message|>Why?<|end|>" +
        "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|><|start|>tool<|message|>one<|end|>" +
        '<|start|>assistant to=functions.get<|channel|>commentary json<|message|>{"a": 1}<|call|><|start|>tool<|message|>two<|end|>',
    );
    expect(prompt.match(/Why\?/g)).toHaveLength(1);
  });

  it.each([
    ["none", "low"],
    ["minimal", "low"],
    ["medium", "medium"],
    ["xhigh", "high"],
  ])("receives the effort %s as %s, which the model was trained with", async (reasoning_effort, effort) => {
    expect((await post({ reasoning_effort })).prompt).toContain(`Reasoning: ${effort}<`);
  });
});
