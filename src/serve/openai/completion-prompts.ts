/** The `prompt` field of completions: a text, a list of texts, a list of ids, or a list of lists of ids. */
import { MillraceError } from "../../core/errors.js";
import { assertTokenIds } from "../../engine/admission.js";
import { StreamDecoder } from "../../text/stream-decoder.js";
import type { Tokenizer } from "../../text/tokenizer.js";
import { countCodePoints } from "../code-points.js";
import type { PromptContext } from "../context.js";
import { assertTextMayFit, contextExceeded } from "./prompt-size.js";
import { checked, isTokenIdArray } from "./schema-parts.js";

export type PromptField = string | readonly string[] | readonly number[] | readonly (readonly number[])[];

export interface Prompt {
  readonly ids: Int32Array;
  /** What echo gives back. */
  readonly text: string;
}

function isPromptField(value: unknown): value is PromptField {
  if (typeof value === "string") return true;
  if (!Array.isArray(value)) return false;
  return value.every((item) => typeof item === "string") || isTokenIdArray(value) || value.every(isTokenIdArray);
}

export const promptField = checked<PromptField>(
  "a string, an array of strings, an array of token ids, or an array of such arrays",
  isPromptField,
);

function emptyPrompt(param: string): MillraceError {
  return new MillraceError("empty_prompt", `${param}: expected at least one token, got none`, {
    param,
    hint: "to start from nothing, send the id of the model's begin-of-text token",
  });
}

function fromIds(context: PromptContext, ids: readonly number[], keepSpecial: boolean, param: string): Prompt {
  const { maxModelLen, vocabSize } = context.engine.info;
  if (ids.length === 0) throw emptyPrompt(param);
  if (ids.length > maxModelLen) throw contextExceeded(maxModelLen, ids.length, 0, param);
  assertTokenIds(ids, vocabSize, param);
  return { ids: Int32Array.from(ids), text: context.tokenizer.decode(ids, { keepSpecial }) };
}

function fromText(context: PromptContext, text: string, addSpecial: boolean, param: string): Prompt {
  if (text === "") throw emptyPrompt(param);
  assertTextMayFit(context, text, param);
  // A prompt here is already formatted, so special tokens written in it count, as in other engines.
  return { ids: Int32Array.from(context.tokenizer.encode(text, { addSpecial, parseSpecial: true })), text };
}

export function encodePrompts(
  context: PromptContext,
  field: PromptField,
  options: {
    readonly addSpecial: boolean;
    readonly keepSpecial: boolean;
    /** The field's name; prompt by default. */
    readonly param?: string;
  },
): Prompt[] {
  const fieldName = options.param ?? "prompt";
  if (typeof field === "string") return [fromText(context, field, options.addSpecial, fieldName)];
  if (field.length === 0) throw emptyPrompt(fieldName);
  if (isTokenIdArray(field)) return [fromIds(context, field, options.keepSpecial, fieldName)];
  const { maxSequencesPerRequest } = context.limits;
  if (field.length > maxSequencesPerRequest) {
    const message = `${fieldName}: expected at most ${maxSequencesPerRequest} prompts, got ${field.length}`;
    throw new MillraceError("invalid_parameter", message, { param: fieldName });
  }
  return (field as readonly (string | readonly number[])[]).map((prompt, index) => {
    const param = `${fieldName}[${index}]`;
    return typeof prompt === "string"
      ? fromText(context, prompt, options.addSpecial, param)
      : fromIds(context, prompt, options.keepSpecial, param);
  });
}

/** Where each prompt token's text begins, in code points of the prompt's text. */
export function promptOffsets(tokenizer: Tokenizer, prompt: Prompt, keepSpecial: boolean): number[] {
  const decoder = new StreamDecoder(tokenizer, { keepSpecial });
  let offset = 0;
  return Array.from(prompt.ids, (id) => {
    const start = offset;
    offset += countCodePoints(decoder.push(id));
    return start;
  });
}
