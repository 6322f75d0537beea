/** The fields that determine the prompt, shared by /v1/messages and count_tokens. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import type { ChatPlanFields } from "../openai/chat-plan.js";
import { schemaField } from "../openai/constraint.js";
import { type FieldRules, isEmptyArray, never } from "../openai/fields.js";
import { integerIn, modelField } from "../openai/schema-parts.js";
import { toolChoiceField, toolsField } from "./tool-fields.js";

/** Blocks are checked by type later, so that the error can name the unsupported type. */
export const anyBlock = z.looseObject({ type: z.string() });
export type AnyBlock = z.output<typeof anyBlock>;

const contentField = z.union([z.string(), z.array(anyBlock)]);
const messageSchema = z.object({ role: z.enum(["user", "assistant", "system"]), content: contentField });
export type MessageField = z.output<typeof messageSchema>;

/** The server cannot summarise thoughts, so `summarized` shows all of them. */
const displayField = z.enum(["summarized", "omitted"]).nullish();
const thinkingField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("disabled") }),
  z.strictObject({ type: z.literal("adaptive"), display: displayField }),
  z.strictObject({ type: z.literal("enabled"), budget_tokens: integerIn(1, 2 ** 31 - 1), display: displayField }),
]);

const jsonFormatField = z.strictObject({ type: z.literal("json_schema"), schema: schemaField });

/** The effort is passed to templates that accept one; otherwise the model decides how much it thinks. */
const outputConfigField = z.strictObject({
  effort: z.enum(["low", "medium", "high", "xhigh", "max"]).nullish(),
  format: jsonFormatField.nullish(),
  // Ignored: the server does not count a task's cost over all turns.
  task_budget: z.unknown().optional(),
});

/** Edits of long conversations. The server makes none, and its answer says so. */
const contextManagementField = z.strictObject({ edits: z.array(z.looseObject({ type: z.string() })).nullish() });

export const conversationShape = {
  model: modelField.optional(),
  messages: z.array(messageSchema),
  system: contentField.optional(),
  thinking: thinkingField.optional(),
  tools: toolsField.optional(),
  tool_choice: toolChoiceField.optional(),
  thread: z.unknown().optional(),
  output_config: outputConfigField.optional(),
  output_format: jsonFormatField.optional(),
  context_management: contextManagementField.optional(),
} as const;

export type ConversationFields = z.output<z.ZodObject<typeof conversationShape, z.core.$strict>>;

/** Fields for the provider's bookkeeping; this server always caches prefixes. */
export const CONVERSATION_INERT: readonly string[] = [
  "cache_control",
  "billing_policy",
  "diagnostics",
  "fallback_credit_token",
  "fallbacks",
  "speed",
  "user_profile_id",
  "workspace_id",
];

export const CONVERSATION_UNSUPPORTED: FieldRules<z.ZodRawShape>["unsupported"] = {
  mcp_servers: isEmptyArray,
  compaction: never,
};

type Effort = NonNullable<ChatPlanFields["reasoning_effort"]>;

/** Converts the effort to OpenAI's scale, whose highest step is one lower. */
export function effortOf({ output_config: config }: ConversationFields): Effort | undefined {
  const effort = config?.effort ?? undefined;
  return effort === "max" ? "xhigh" : effort;
}

/** Undefined: the answer's form is free. */
export function answerFormOf({
  output_config: config,
  output_format: format,
}: ConversationFields): AnswerForm | undefined {
  if (config?.format != null && format !== undefined) {
    throw new MillraceError(
      "invalid_parameter",
      "output_format: expected nothing beside output_config.format, got both",
      {
        param: "output_format",
      },
    );
  }
  if (config?.format != null)
    return { kind: "schema", schema: config.format.schema, param: "output_config.format.schema" };
  return format === undefined ? undefined : { kind: "schema", schema: format.schema, param: "output_format.schema" };
}

/**
 * Variables of the template. Only an explicit setting is passed on; otherwise the template's default applies.
 * `adaptive` leaves the choice to the model, which may never think. A model that does not mark its thoughts answers
 * without, as in Ollama: agents ask every model to think.
 */
export function thinkingKwargs(
  thinking: ConversationFields["thinking"],
  hasReasoning: boolean,
): Readonly<Record<string, unknown>> {
  if (thinking?.type === "disabled") return { enable_thinking: false };
  return thinking?.type === "enabled" && hasReasoning ? { enable_thinking: true } : {};
}
