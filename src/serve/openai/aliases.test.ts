import { expect, test } from "vitest";
import type { Asker, PromptContext } from "../http/context.js";
import { CHAT_RULES } from "./chat-completions.js";
import { formOf } from "./constraint.js";
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
  [
    { thinking: { type: "enabled", budget_tokens: 9 } },
    { chat_template_kwargs: { enable_thinking: true }, thinking_token_budget: 9 },
  ],
  [{ documents: [{ text: "a" }] }, { chat_template_kwargs: { documents: [{ text: "a" }] } }],
  [{ kv_transfer_params: {}, ec_transfer_params: null, stream_interval: 4, mm_payload: "tensors" }, {}],
  [{ return_mm_kwargs: false, routed_experts_prompt_start: 0, watermarking: false, logprob_token_ids: [] }, {}],
  [{ reasoning_budget: -1 }, { thinking_token_budget: -1 }],
  [{ thinking_budget_tokens: 0 }, { thinking_token_budget: 0 }],
  [{ thinking: { type: "adaptive" } }, {}],
  [{ regex: "a+" }, { structured_outputs: { regex: "a+" } }],
  [{ ebnf: 'root ::= "a"' }, { structured_outputs: { grammar: 'root ::= "a"' } }],
  [{ reasoning: { effort: "low", exclude: true } }, { reasoning_effort: "low", include_reasoning: false }],
  [{ reasoning: { exclude: true } }, { include_reasoning: false }],
  [{ models: ["a", "b"], route: "fallback", transforms: [], plugins: [], strictJsonSchema: true }, {}],
  [{ n: 3, best_of: 3 }, { n: 3 }],
  [{ reasoning: { effort: "low" } }, { reasoning_effort: "low" }],
  [{ reasoning: { effort: "max", enabled: true, summary: "auto", exclude: false } }, { reasoning_effort: "xhigh" }],
  [{ reasoning: { enabled: false, effort: "low" } }, { chat_template_kwargs: { enable_thinking: false } }],
  [
    { reasoning: { enabled: true, max_tokens: 9 } },
    { chat_template_kwargs: { enable_thinking: true }, thinking_token_budget: 9 },
  ],
  [{ reasoning: { max_tokens: 9 } }, { thinking_token_budget: 9 }],
  [
    { num_ctx: 8192, keep_alive: "5m", provider: {}, usage: { include: true }, vllm_xargs: {} },
    { usage: { include: true } },
  ],
  [
    { guided_regex: "a+", structured_outputs: { regex: "a+" }, n_predict: 5, max_tokens: 5 },
    { structured_outputs: { regex: "a+" }, max_tokens: 5 },
  ],
  [
    { enable_thinking: true, chat_template_kwargs: { a: 1, enable_thinking: true }, prompt_cache_options: {} },
    { chat_template_kwargs: { a: 1, enable_thinking: true } },
  ],
  [{ separate_reasoning: true, reasoning_format: "auto" }, {}],
  [{ guided_json: null, thinking: null }, {}],
  [{ request_id: "r", chat_id: "c", session_id: "s", length_penalty: 1, early_stopping: false, best_of: 1 }, {}],
])("%j means %j", (fields, expected) => {
  expect(parsed(fields)).toEqual({ messages, ...expected });
});

test("Hugging Face's names of a format with a schema mean llama-server's", () => {
  const schema = { type: "object", properties: { a: { const: 1 } } };
  for (const type of ["json", "json_object"]) {
    const { response_format } = parsed({ response_format: { type, value: schema } });
    expect(formOf({ response_format })).toMatchObject({ kind: "schema", schema, param: "response_format.value" });
  }
  expect(formOf(parsed({ response_format: { type: "json" } }))).toMatchObject({ schema: { type: "object" } });
});

test.each([
  [{ guided_regex: "a", structured_outputs: { regex: "b" } }, "guided_regex", "invalid_parameter"],
  [{ repeat_penalty: 1.1, repetition_penalty: 1.2 }, "repeat_penalty", "invalid_parameter"],
  [{ n_predict: 3, max_tokens: 4 }, "n_predict", "invalid_parameter"],
  [{ guided_choice: "a" }, "structured_outputs.choice", "invalid_parameter"],
  [{ thinking: { type: "some" } }, "thinking", "invalid_parameter"],
  [{ reasoning_budget: -2 }, "thinking_token_budget", "invalid_parameter"],
  [{ reasoning_budget: 1, thinking_token_budget: 2 }, "reasoning_budget", "invalid_parameter"],
  [{ enable_thinking: true, chat_template_kwargs: { enable_thinking: false } }, "enable_thinking", "invalid_parameter"],
  [{ moderation: { policy: {} } }, "moderation", "unsupported_field"],
  [{ enable_thinking: "false" }, "enable_thinking", "invalid_parameter"],
  [{ reasoning: { effort: "low", exclude: "yes" } }, "reasoning.exclude", "invalid_parameter"],
  [{ reasoning: { exclude: true }, include_reasoning: true }, "reasoning", "invalid_parameter"],
  [{ n: 2, best_of: 3 }, "best_of", "unsupported_field"],
  [{ plugins: [{ id: "web" }] }, "plugins", "unsupported_field"],
  [{ transforms: ["middle-out"] }, "transforms", "unsupported_field"],
  [{ response_format: { type: "json", schema: {}, value: {} } }, "response_format", "invalid_parameter"],
  [{ reasoning: { enabled: "no" } }, "reasoning.enabled", "invalid_parameter"],
  [{ reasoning: "low" }, "reasoning", "invalid_parameter"],
  [{ vllm_xargs: { a: 1 } }, "vllm_xargs", "unsupported_field"],
  [{ reasoning_format: "none" }, "reasoning_format", "unsupported_field"],
  [{ think: "high" }, "think", "invalid_parameter"],
  [{ documents: ["a"] }, "documents", "invalid_parameter"],
  [{ documents: [{ text: "a" }], chat_template_kwargs: { documents: [] } }, "documents", "invalid_parameter"],
  [{ kv_transfer_params: { do_remote_decode: true } }, "kv_transfer_params", "unsupported_field"],
  [{ logprob_token_ids: [5] }, "logprob_token_ids", "unsupported_field"],
  [{ repetition_detection: { min_count: 2 } }, "repetition_detection", "unsupported_field"],
  [{ return_prompt_text: true }, "return_prompt_text", "unsupported_field"],
  [{ truncation_side: "middle" }, "truncation_side", "invalid_parameter"],
  [{ length_penalty: 2 }, "length_penalty", "unsupported_field"],
])("refuses %j", (fields, param, code) => {
  expect(() => parsed(fields)).toThrow(expect.objectContaining({ param, code }));
});
