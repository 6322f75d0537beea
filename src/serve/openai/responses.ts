/** POST /v1/responses, stateless: nothing is stored, so nothing can be continued by id. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { AppContext, ServeContext } from "../context.js";
import type { GenerationRequest } from "../generation.js";
import { readJsonObject } from "../read-body.js";
import { jobTerms } from "../request-terms.js";
import { collectResults, streamResults } from "../respond.js";
import { seedOf } from "../seeds.js";
import { encodeChat, type PlainMessage } from "./chat-messages.js";
import { type FieldRules, INERT_FIELDS, isEmptyArray, isOneOf, never, parseFields } from "./fields.js";
import { resolveModelName } from "./model-name.js";
import { type ResponseFacts, responseFrames, responseObject } from "./response-objects.js";
import { planChoices } from "./sampling.js";
import { maxTokensField, modelField, samplingShape, streamOptionsField, termsShape } from "./schema-parts.js";

const inputPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const inputItem = z.strictObject({
  type: z.literal("message").optional(),
  role: z.enum(["system", "developer", "user", "assistant"]),
  content: z.union([z.string(), z.array(inputPart)]),
  // Sent back by clients from an earlier answer's output.
  id: z.string().nullish(),
  status: z.string().nullish(),
  phase: z.string().nullish(),
});

const schema = z.strictObject({
  model: modelField.optional(),
  input: z.union([z.string(), z.array(inputItem)]),
  instructions: z.string().optional(),
  max_output_tokens: maxTokensField.optional(),
  stream: z.boolean().optional(),
  stream_options: streamOptionsField.pick({ include_obfuscation: true }).optional(),
  temperature: samplingShape.temperature,
  top_p: samplingShape.top_p,
  ...termsShape,
});

type ResponseRequest = z.output<typeof schema>;

const isTextConfig = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).every(
    ([name, setting]) =>
      name === "verbosity" || (name === "format" && (setting as { type?: unknown } | null)?.type === "text"),
  );
};

const RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set([...INERT_FIELDS, "max_tool_calls", "parallel_tool_calls"]),
  unsupported: {
    previous_response_id: never,
    conversation: never,
    background: isOneOf(false),
    include: isEmptyArray,
    prompt: never,
    reasoning: never,
    text: isTextConfig,
    tools: isEmptyArray,
    tool_choice: isOneOf("none", "auto"),
    top_logprobs: isOneOf(0),
    truncation: isOneOf("disabled"),
    context_management: isEmptyArray,
  },
};

const TEXT_PARTS: readonly string[] = ["input_text", "output_text", "text"];

function partText(part: z.output<typeof inputPart>, param: string): string {
  if (TEXT_PARTS.includes(part.type) && part.text !== undefined) return part.text;
  if (TEXT_PARTS.includes(part.type)) {
    throw new MillraceError("invalid_parameter", `${param}.text: expected a string, got nothing`, {
      param: `${param}.text`,
    });
  }
  throw new MillraceError(
    "unsupported_field",
    `expected text parts only, got a part of type "${part.type.slice(0, 40)}"`,
    {
      param: `${param}.type`,
      hint: "this server takes no images, audio or files",
    },
  );
}

function toMessages(request: ResponseRequest): PlainMessage[] {
  const messages: PlainMessage[] = [];
  if (request.instructions !== undefined) messages.push({ role: "system", content: request.instructions });
  if (typeof request.input === "string") {
    messages.push({ role: "user", content: request.input });
    return messages;
  }
  if (request.input.length === 0) {
    throw new MillraceError("empty_prompt", "input: expected at least one message, got none", { param: "input" });
  }
  for (const [index, item] of request.input.entries()) {
    const param = `input[${index}].content`;
    const content =
      typeof item.content === "string"
        ? item.content
        : item.content.map((part, partIndex) => partText(part, `${param}[${partIndex}]`)).join("");
    messages.push({ role: item.role === "developer" ? "system" : item.role, content });
  }
  return messages;
}

function planRequest(context: ServeContext, request: ResponseRequest): GenerationRequest[] {
  if (request.max_output_tokens === 0) {
    throw new MillraceError("invalid_parameter", "max_output_tokens: expected an integer of at least 1, got 0", {
      param: "max_output_tokens",
    });
  }
  return planChoices(
    context,
    {
      fields: { temperature: request.temperature, top_p: request.top_p },
      promptIds: encodeChat(context, toMessages(request), { promptField: "input" }),
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
  const request = parseFields(c, context, RULES, await readJsonObject(c, context.limits));
  const terms = jobTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const generations = planRequest(context, request);
  const facts: ResponseFacts = {
    id: `resp_${randomUUID().replaceAll("-", "")}`,
    itemId: `msg_${randomUUID().replaceAll("-", "")}`,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    model,
    instructions: request.instructions ?? null,
    maxOutputTokens: request.max_output_tokens ?? null,
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    numPromptTokens: generations[0]!.promptIds.length,
  };
  if (request.stream === true) {
    return streamResults(c, context, generations, terms, responseFrames(facts, c.get("requestId")));
  }
  const { results, totals } = await collectResults(c, context, generations, terms);
  const result = results[0]!;
  return c.json(responseObject(facts, { text: result.text, end: result.end, totals }));
}
