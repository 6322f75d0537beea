/** The fields that say what the prompt is, the same for answering and for counting. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { type FieldRules, isEmptyArray, never } from "../openai/fields.js";
import { modelField } from "../openai/schema-parts.js";

/** Blocks are checked by type later, so that one of a kind that is not served is named as such. */
const anyBlock = z.looseObject({ type: z.string() });
export type AnyBlock = z.output<typeof anyBlock>;

const contentField = z.union([z.string(), z.array(anyBlock)]);
const messageSchema = z.strictObject({ role: z.enum(["user", "assistant", "system"]), content: contentField });
export type MessageField = z.output<typeof messageSchema>;

export const conversationShape = {
  model: modelField.optional(),
  messages: z.array(messageSchema),
  system: contentField.optional(),
  thinking: z.looseObject({ type: z.string() }).optional(),
} as const;

export type ConversationFields = z.output<z.ZodObject<typeof conversationShape, z.core.$strict>>;

const isChoiceWithoutTools = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "type" in value && (value.type === "none" || value.type === "auto");

/** About the provider's bookkeeping: prefixes are always cached here. */
export const CONVERSATION_INERT: readonly string[] = [
  "cache_control",
  "diagnostics",
  "speed",
  "user_profile_id",
  "workspace_id",
];

export const CONVERSATION_UNSUPPORTED: FieldRules<z.ZodRawShape>["unsupported"] = {
  tools: isEmptyArray,
  tool_choice: isChoiceWithoutTools,
  mcp_servers: isEmptyArray,
  context_management: never,
  output_config: never,
  output_format: never,
};

/** Variables of the template. Only an explicit wish is passed on: without one the model does as it was trained. */
export function thinkingKwargs(thinking: ConversationFields["thinking"]): Readonly<Record<string, unknown>> {
  if (thinking === undefined) return {};
  if (thinking.type === "disabled") return { enable_thinking: false };
  throw new MillraceError(
    "unsupported_field",
    `thinking.type: expected "disabled", got ${JSON.stringify(thinking.type.slice(0, 40))}`,
    { param: "thinking.type", hint: "this server does not separate thinking from the answer" },
  );
}
