/** llama-server's prompts: texts, token ids, lists of both, and objects with a text; one of them, or a list. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { PromptContext } from "../http/context.js";
import {
  assertNumPrompts,
  encodePrompts,
  isPromptField,
  type Prompt,
  type PromptField,
  type PromptOptions,
} from "../openai/completion-prompts.js";
import { checked, isTokenIdArray } from "../openai/schema-parts.js";

/** Ids and texts that together form one prompt. */
type Mixed = readonly (number | string)[];
type One = string | readonly number[] | Mixed;
type MixedField = PromptField | Mixed | readonly One[];

/** Limit, since each text of a mixed prompt is tokenized separately. */
const MAX_TEXTS = 1024;

function isMixed(value: unknown): value is Mixed {
  if (!Array.isArray(value) || !value.some((piece) => typeof piece === "number")) return false;
  const rest = value.filter((piece) => typeof piece !== "string");
  return value.length - rest.length <= MAX_TEXTS && isTokenIdArray(rest);
}

const isOne = (value: unknown): value is One => typeof value === "string" || isTokenIdArray(value) || isMixed(value);

/** The text of an object. Throws unsupported_field if the object also has images. */
function textOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("prompt_string" in value)) return value;
  const { prompt_string: text, multimodal_data: media = [], ...rest } = value as Readonly<Record<string, unknown>>;
  if (Array.isArray(media) && media.length > 0) {
    throw new MillraceError("unsupported_field", "multimodal_data: expected none, got images or audio", {
      param: "multimodal_data",
      hint: "this server takes no images, audio or files",
    });
  }
  return Object.keys(rest).length === 0 ? text : value;
}

/** Prompts with texts in place of objects. */
export const withoutObjects = (value: unknown): unknown =>
  Array.isArray(value) && !isTokenIdArray(value) ? value.map(textOf) : textOf(value);

export const mixedPromptField = z.preprocess(
  withoutObjects,
  checked<MixedField>(
    "a string, an array of token ids, an array of ids and strings, or an array of such prompts",
    (value) => isPromptField(value) || isMixed(value) || (Array.isArray(value) && value.every(isOne)),
  ),
);

async function encodeOne(context: PromptContext, prompt: One, options: PromptOptions): Promise<Prompt> {
  let field: PromptField = prompt as string | readonly number[];
  if (isMixed(prompt) && !isTokenIdArray(prompt)) {
    const ids: number[] = [];
    for (const [i, piece] of prompt.entries()) {
      const addSpecial = options.addSpecial && i === 0;
      const given =
        typeof piece === "number" ? [piece] : await encodePrompts(context, piece, { ...options, addSpecial });
      for (const each of given) for (const id of typeof each === "number" ? [each] : each.ids) ids.push(id);
    }
    field = ids;
  }
  const [encoded] = await encodePrompts(context, field, options);
  return encoded!;
}

export async function encodeMixed(
  context: PromptContext,
  field: MixedField,
  options: PromptOptions,
): Promise<readonly Prompt[]> {
  if (isPromptField(field)) return encodePrompts(context, field, options);
  if (isMixed(field)) return [await encodeOne(context, field, options)];
  assertNumPrompts(context, field.length, "prompt");
  const prompts: Prompt[] = [];
  for (const [i, prompt] of field.entries()) {
    prompts.push(await encodeOne(context, prompt as One, { ...options, param: `prompt[${i}]` }));
  }
  return prompts;
}
