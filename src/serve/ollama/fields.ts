/** The fields that /api/chat and /api/generate share. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { takenTemperature } from "../../core/ollama-api.js";
import { MAX_LOGPROBS } from "../../engine/api/request.js";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import type { ServeContext } from "../http/context.js";
import { llamaSamplingShape, MAX_INT, samplingFieldsOf } from "../llama/sampling-fields.js";
import type { ChatPlanFields } from "../openai/chat-plan.js";
import { anyObjectForm } from "../openai/constraint.js";
import type { SamplingFields } from "../openai/schema-parts.js";
import { checked, integerIn, modelField } from "../openai/schema-parts.js";

/** As in Ollama, null options and options of other runners and samplers are ignored. */
const optionsField = z.preprocess(
  (options) => (isPlainObject(options) ? takenOptions(options) : options),
  z.object({ ...llamaSamplingShape, num_predict: integerIn(-2, MAX_INT).optional() }),
);

function takenOptions(options: object): object {
  const given = Object.entries(options).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([name, value]) => [name, name === "temperature" ? takenTemperature(value) : value]),
  );
}

const formatField = checked<string | object>(
  '"json" or a JSON schema',
  (value) => value === "" || value === "json" || isPlainObject(value),
);

/** 0 asks the server to unload the model; the model stays loaded nevertheless. */
const keepAliveField = z.union([z.string(), z.number()]);

export const generationShape = {
  model: modelField.optional(),
  stream: z.boolean().optional(),
  format: formatField.optional(),
  options: optionsField.optional(),
  think: z.union([z.boolean(), z.enum(["low", "medium", "high", "max"])]).optional(),
  keep_alive: keepAliveField.optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: integerIn(0, MAX_LOGPROBS).optional(),
} as const;

export type GenerationFields = z.output<z.ZodObject<typeof generationShape>>;

/** Undefined: the answer's form is free. */
export function formOf({ format }: GenerationFields): AnswerForm | undefined {
  if (format === undefined || format === "") return undefined;
  return format === "json" ? anyObjectForm("format") : { kind: "schema", schema: format, param: "format" };
}

export const samplingOf = ({ options = {} }: GenerationFields): SamplingFields => samplingFieldsOf(options);

/** undefined: as many tokens as fit. In Ollama's own runner, 0 also means no limit. */
export const maxTokensOf = ({ options: { num_predict = 0 } = {} }: GenerationFields): number | undefined =>
  num_predict <= 0 ? undefined : num_predict;

/** The template's variables for thinking. */
export function thinkingFields({ think }: GenerationFields, { chatFormat }: ServeContext): ChatPlanFields {
  if (think === undefined) return {};
  if (think !== false && !chatFormat.hasReasoning) {
    throw new MillraceError(
      "unsupported_field",
      `think: expected false for a model that does not support thinking, got ${think}`,
      {
        param: "think",
      },
    );
  }
  if (typeof think === "string") return { reasoning_effort: think === "max" ? "xhigh" : think };
  return chatFormat.isHarmony
    ? { reasoning_effort: think ? "medium" : "none" }
    : { chat_template_kwargs: { enable_thinking: think } };
}

/** @param images base64 texts, as clients send them */
export function assertNoImages(images: unknown, param: string): void {
  if (!Array.isArray(images) || images.length === 0) return;
  throw new MillraceError("unsupported_field", `${param}: expected no images, got ${images.length}`, {
    param,
    hint: "this server reads text only",
  });
}
