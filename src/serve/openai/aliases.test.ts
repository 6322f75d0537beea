import { expect, test } from "vitest";
import type { Asker, PromptContext } from "../http/context.js";
import { CHAT_RULES } from "./chat-completions.js";
import { parseFields } from "./fields.js";

const asker = { get: () => "id" } as unknown as Asker;
const context = { unknownFields: "error" } as unknown as PromptContext;
const messages = [{ role: "user", content: "hi" }];
const parsed = (fields: object) => parseFields(asker, context, CHAT_RULES, { messages, ...fields });

test.each([
  [{ guided_json: { type: "object" } }, { structured_outputs: { json: { type: "object" } } }],
  [{ guided_choice: ["a", "b"], guided_decoding_backend: "auto" }, { structured_outputs: { choice: ["a", "b"] } }],
  [{ guided_regex: "a+" }, { structured_outputs: { regex: "a+" } }],
  [{ guided_grammar: 'root ::= "a"' }, { structured_outputs: { grammar: 'root ::= "a"' } }],
  [
    { repeat_penalty: 1.1, n_predict: 5, tfs_z: 1 },
    { repetition_penalty: 1.1, max_tokens: 5 },
  ],
  [{ enable_thinking: false }, { chat_template_kwargs: { enable_thinking: false } }],
  [{ thinking: { type: "disabled" } }, { chat_template_kwargs: { enable_thinking: false } }],
  [{ think: true, chat_template_kwargs: { a: 1 } }, { chat_template_kwargs: { a: 1, enable_thinking: true } }],
  [{ thinking: { type: "enabled", budget_tokens: 9 } }, { chat_template_kwargs: { enable_thinking: true } }],
  [{ thinking: { type: "adaptive" } }, { chat_template_kwargs: {} }],
  [{ reasoning: { effort: "low" } }, { reasoning_effort: "low" }],
  [{ reasoning: { effort: "max", enabled: true, summary: "auto", exclude: false } }, { reasoning_effort: "xhigh" }],
  [{ reasoning: { enabled: false, effort: "low" } }, { chat_template_kwargs: { enable_thinking: false } }],
  [{ reasoning: { enabled: true, max_tokens: 9 } }, { chat_template_kwargs: { enable_thinking: true } }],
  [{ num_ctx: 8192, keep_alive: "5m", provider: {}, usage: { include: true }, vllm_xargs: {} }, {}],
  [{ separate_reasoning: true, reasoning_format: "auto" }, {}],
  [{ guided_json: null, thinking: null }, {}],
  [{ request_id: "r", chat_id: "c", session_id: "s", length_penalty: 1, early_stopping: false, best_of: 1 }, {}],
])("%j means %j", (fields, expected) => {
  expect(parsed(fields)).toEqual({ messages, ...expected });
});

test.each([
  [{ guided_regex: "a", structured_outputs: { regex: "b" } }, "guided_regex", "invalid_parameter"],
  [{ repeat_penalty: 1.1, repetition_penalty: 1.2 }, "repeat_penalty", "invalid_parameter"],
  [{ n_predict: 3, max_tokens: 4 }, "n_predict", "invalid_parameter"],
  [{ guided_choice: "a" }, "structured_outputs.choice", "invalid_parameter"],
  [{ thinking: { type: "some" } }, "thinking", "invalid_parameter"],
  [{ enable_thinking: "false" }, "enable_thinking", "invalid_parameter"],
  [{ reasoning: { effort: "low", exclude: true } }, "reasoning.exclude", "invalid_parameter"],
  [{ reasoning: { enabled: "no" } }, "reasoning.enabled", "invalid_parameter"],
  [{ reasoning: "low" }, "reasoning", "invalid_parameter"],
  [{ vllm_xargs: { a: 1 } }, "vllm_xargs", "unsupported_field"],
  [{ reasoning_format: "none" }, "reasoning_format", "unsupported_field"],
  [{ think: "high" }, "think", "invalid_parameter"],
  [{ length_penalty: 2 }, "length_penalty", "unsupported_field"],
])("refuses %j", (fields, param, code) => {
  expect(() => parsed(fields)).toThrow(expect.objectContaining({ param, code }));
});
