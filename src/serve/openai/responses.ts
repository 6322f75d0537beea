/** POST /v1/responses, stateless: nothing is stored, so nothing can be continued by id. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { AppContext, Asker, PromptContext, ServeContext } from "../context.js";
import type { GenerationRequest } from "../generation.js";
import { readJsonObject } from "../read-body.js";
import { jobTerms } from "../request-terms.js";
import { collectResults, streamResults } from "../respond.js";
import { seedOf } from "../seeds.js";
import { chatPrompt, planChat, REASONING_EFFORTS } from "./chat-plan.js";
import { type FieldRules, INERT_FIELDS, isEmptyArray, isOneOf, never, parseFields } from "./fields.js";
import { resolveModelName } from "./model-name.js";
import { responseFrames } from "./response-events.js";
import { inputField, readInput } from "./response-input.js";
import { type ResponseFacts, wholeResponse } from "./response-objects.js";
import { formOfText, isFormPrescribed, textField } from "./response-text.js";
import { flatChoiceField, flatToolsField, readFlatTools } from "./response-tools.js";
import { planChoices } from "./sampling.js";
import { maxTokensField, modelField, samplingShape, streamOptionsField, termsShape } from "./schema-parts.js";

/** Reasoning comes whole, so that no summary of it is made. */
const summaryField = z.enum(["auto", "concise", "detailed"]).nullish();
const reasoningField = z.strictObject({
  effort: z.enum(REASONING_EFFORTS).nullish(),
  summary: summaryField,
  generate_summary: summaryField,
});

const schema = z.strictObject({
  model: modelField.optional(),
  input: inputField,
  instructions: z.string().optional(),
  max_output_tokens: maxTokensField.optional(),
  stream: z.boolean().optional(),
  stream_options: streamOptionsField.pick({ include_obfuscation: true }).optional(),
  temperature: samplingShape.temperature,
  top_p: samplingShape.top_p,
  tools: flatToolsField.optional(),
  tool_choice: flatChoiceField.optional(),
  parallel_tool_calls: z.boolean().optional(),
  reasoning: reasoningField.optional(),
  text: textField.optional(),
  ...termsShape,
});

type ResponseRequest = z.output<typeof schema>;

/** Asked for by clients that store nothing; the reasoning is there in plain text. */
const isReasoningOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.every((name) => name === "reasoning.encrypted_content");

export const RESPONSE_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set([...INERT_FIELDS, "max_tool_calls"]),
  unsupported: {
    previous_response_id: never,
    conversation: never,
    background: isOneOf(false),
    include: isReasoningOnly,
    prompt: never,
    top_logprobs: isOneOf(0),
    truncation: isOneOf("disabled"),
    context_management: isEmptyArray,
  },
};

/** What chatPrompt and planChat take. */
function conversationOf(c: Asker, context: PromptContext, request: ResponseRequest) {
  return [
    context,
    readInput(c, context, request.input, request.instructions),
    { promptField: "input" },
    { ...readFlatTools(c, context, request), reasoning_effort: request.reasoning?.effort ?? undefined },
  ] as const;
}

/** The request's prompt, and nothing of what else it asks for. */
export function responsePromptIds(c: Asker, context: PromptContext, request: ResponseRequest): Int32Array {
  return chatPrompt(...conversationOf(c, context, request), isFormPrescribed(request.text)).promptIds;
}

function planRequest(c: AppContext, context: ServeContext, request: ResponseRequest): GenerationRequest[] {
  if (request.max_output_tokens === 0) {
    throw new MillraceError("invalid_parameter", "max_output_tokens: expected an integer of at least 1, got 0", {
      param: "max_output_tokens",
    });
  }
  const plan = planChat(...conversationOf(c, context, request), formOfText(request.text));
  return planChoices(
    context,
    {
      ...plan,
      fields: { temperature: request.temperature, top_p: request.top_p },
      maxTokens: request.max_output_tokens,
      maxTokensField: "max_output_tokens",
      promptField: "input",
      numLogprobs: undefined,
      numPromptLogprobs: undefined,
    },
    1,
    seedOf(undefined, context.drawSeed),
  );
}

export async function responses(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, RESPONSE_RULES, await readJsonObject(c, context.limits));
  const terms = jobTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const generations = planRequest(c, context, request);
  const facts: ResponseFacts = {
    id: `resp_${randomUUID().replaceAll("-", "")}`,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    model,
    instructions: request.instructions ?? null,
    maxOutputTokens: request.max_output_tokens ?? null,
    temperature: request.temperature ?? context.samplingDefaults?.temperature ?? 1,
    topP: request.top_p ?? context.samplingDefaults?.top_p ?? 1,
    tools: request.tools ?? [],
    toolChoice: request.tool_choice ?? "auto",
    isParallel: request.parallel_tool_calls ?? true,
    effort: request.reasoning?.effort ?? null,
    textFormat: request.text?.format ?? { type: "text" },
    numPromptTokens: generations[0]!.promptIds.length,
  };
  if (request.stream === true) {
    return streamResults(c, context, generations, terms, responseFrames(facts, c.get("requestId")));
  }
  const { results, totals } = await collectResults(c, context, generations, terms);
  return c.json(wholeResponse(facts, results[0]!, totals));
}
