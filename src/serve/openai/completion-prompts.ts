/** The `prompt` field of completions: a text, a list of texts, a list of ids, or a list of lists of ids. */
import { MillraceError } from "../../core/errors.js";
import { assertTokenIds } from "../../engine/api/request.js";
import { StreamDecoder } from "../../text/stream-decoder.js";
import type { InfillTokens } from "../../text/tokenizer/infill-tokens.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { countCodePoints } from "../generation/code-points.js";
import type { PromptContext } from "../http/context.js";
import {
  assertMayBeTruncated,
  assertTextMayFit,
  contextExceeded,
  keptTokens,
  truncated,
  wholeIds,
} from "./prompt-size.js";
import { checked, isTokenIdArray } from "./schema-parts.js";

export type PromptField = string | readonly string[] | readonly number[] | readonly (readonly number[])[];

export interface Prompt {
  readonly ids: Int32Array;
  /** The prompt's text that `echo` returns. */
  readonly text: string;
}

export function isPromptField(value: unknown): value is PromptField {
  if (typeof value === "string" || isTokenIdArray(value)) return true;
  if (!Array.isArray(value)) return false;
  return value.every((item) => typeof item === "string") || value.every(isTokenIdArray);
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

/** @param given the client's tokens */
function fromIds(context: PromptContext, given: readonly number[], options: PromptOptions, param: string): Prompt {
  const { keepSpecial } = options;
  const { maxModelLen, vocabSize } = context.engine.info;
  if (given.length === 0) throw emptyPrompt(param);
  if (options.truncate !== undefined) assertTokenIds(given, vocabSize, param);
  const asGiven = { ...options, addSpecial: false };
  const ids = options.truncate === undefined ? given : Array.from(shortened(context, Int32Array.from(given), asGiven));
  if (ids.length > maxModelLen) throw contextExceeded(maxModelLen, ids.length, 0, param);
  assertTokenIds(ids, vocabSize, param);
  return withText(Int32Array.from(ids), () => context.tokenizer.decode(ids, { keepSpecial }));
}

/** Decodes the text only when it is read: decoding the millions of ids that a request may have takes a second. */
function withText(ids: Int32Array, textOf: () => string): Prompt {
  return {
    ids,
    get text() {
      return textOf();
    },
  };
}

function shortened(context: PromptContext, ids: Int32Array, options: PromptOptions): Int32Array {
  const { truncate, numWanted = 0, keepsEnds, addSpecial, side } = options;
  const { maxModelLen } = context.engine.info;
  if (keepsEnds === undefined) return truncated(ids, truncate, maxModelLen, numWanted, side);
  const { addsBos, addsEos } = context.tokenizer;
  const numAround = addSpecial && (keepsEnds === "end" ? addsEos : addsBos) ? 1 : 0;
  return keptTokens(ids, truncate, maxModelLen, { cut: keepsEnds, numAround });
}

function assertText(context: PromptContext, text: string, options: PromptOptions, param: string): void {
  if (text === "") throw emptyPrompt(param);
  if (options.truncate === undefined) assertTextMayFit(context, text, param);
}

/** A completion prompt is already formatted, so special tokens in its text are recognised, as in other engines. */
async function fromTexts(
  context: PromptContext,
  texts: readonly string[],
  options: PromptOptions,
  paramOf: (index: number) => string,
): Promise<Prompt[]> {
  const { addSpecial, keepSpecial, truncate } = options;
  const most = truncate === undefined ? context.engine.info.maxModelLen : undefined;
  const encoded = await context.asyncTokenizer.encode(texts, { addSpecial, parseSpecial: true }, most);
  return encoded.map((each, index) => {
    const whole = wholeIds(each, context, paramOf(index));
    const ids = shortened(context, whole, options);
    return withText(ids, () => (ids === whole ? texts[index]! : context.tokenizer.decode(ids, { keepSpecial })));
  });
}

export interface PromptOptions {
  readonly addSpecial: boolean;
  readonly keepSpecial: boolean;
  /** The field's name; `prompt` by default. */
  readonly param?: string;
  /**
   * Number of a prompt's last tokens to keep (-1: as many as the context holds in addition to the answer). Absent: all.
   */
  readonly truncate?: number | undefined;
  /** The side of a prompt that is cut; left by default. */
  readonly side?: "left" | "right" | undefined;
  /** The number of tokens for the answer. */
  readonly numWanted?: number;
  /**
   * Keeps the tokenizer's own tokens at both ends, as encoders need them, and cuts this side of the text between them.
   */
  readonly keepsEnds?: "start" | "end" | undefined;
}

function isTexts(list: Exclude<PromptField, string>): list is readonly string[] {
  return typeof list[0] === "string";
}

/** Texts within this many characters per token of the context are cut at the cost of uncut texts. */
const USUAL_CHARACTERS = 8;

/** Total number of characters by which texts exceed the context's usual capacity. */
function excessOf(field: PromptField, { maxModelLen }: PromptContext["engine"]["info"]): number {
  if (isTokenIdArray(field)) return 0;
  const texts = typeof field === "string" ? [field] : field.filter((prompt) => typeof prompt === "string");
  return texts.reduce((sum, { length }) => sum + Math.max(0, length - USUAL_CHARACTERS * maxModelLen), 0);
}

export function assertNumPrompts({ limits }: PromptContext, count: number, param: string): void {
  if (count <= limits.maxSequencesPerRequest) return;
  const message = `${param}: expected at most ${limits.maxSequencesPerRequest} prompts, got ${count}`;
  throw new MillraceError("invalid_parameter", message, { param });
}

export async function encodePrompts(
  context: PromptContext,
  field: PromptField,
  options: PromptOptions,
): Promise<Prompt[]> {
  const fieldName = options.param ?? "prompt";
  if (options.truncate !== undefined) assertMayBeTruncated(excessOf(field, context.engine.info), fieldName);
  if (typeof field === "string") {
    assertText(context, field, options, fieldName);
    return fromTexts(context, [field], options, () => fieldName);
  }
  if (field.length === 0) throw emptyPrompt(fieldName);
  if (isTokenIdArray(field)) return [fromIds(context, field, options, fieldName)];
  assertNumPrompts(context, field.length, fieldName);
  if (isTexts(field)) {
    const paramOf = (index: number) => `${fieldName}[${index}]`;
    for (const [index, text] of field.entries()) assertText(context, text, options, paramOf(index));
    return fromTexts(context, field, options, paramOf);
  }
  const lists = field as readonly (readonly number[])[];
  return lists.map((ids, index) => fromIds(context, ids, options, `${fieldName}[${index}]`));
}

interface Gap {
  /** The text after the gap. */
  readonly suffix: string;
  readonly addSpecial: boolean;
  /** The suffix's field. */
  readonly param?: string;
  readonly extra?: {
    /** Tokens of further texts, which precede the rest. Only the last of them that fit into the context are used. */
    readonly ids: readonly number[];
    /** Room for the answer beside them, in tokens. */
    readonly numWanted: number;
  };
}

/** The text before and after each gap, in the order of the model's training on gaps. */
export async function infillPrompts(
  context: PromptContext,
  prompts: readonly Prompt[],
  { suffix, addSpecial, param = "suffix", extra }: Gap,
): Promise<Prompt[]> {
  const { tokenizer } = context;
  const infill = infillTokensOf(context, param);
  assertTextMayFit(context, suffix, param);
  const first = addSpecial && tokenizer.addsBos && tokenizer.bosId !== undefined ? [tokenizer.bosId] : [];
  const { maxModelLen } = context.engine.info;
  const encode = { addSpecial: false, parseSpecial: false };
  const [encoded] = await context.asyncTokenizer.encode([suffix], encode, maxModelLen);
  const after = wholeIds(encoded!, context, param);
  return prompts.map(({ ids, text }) => {
    const rest = [infill.prefix, ...ids, infill.suffix, ...after, infill.middle];
    const room = maxModelLen - first.length - rest.length - (extra?.numWanted ?? 0);
    const before = room <= 0 ? [] : (extra?.ids.slice(-room) ?? []);
    return { ids: Int32Array.from([...first, ...before, ...rest]), text };
  });
}

/** Throws unsupported_field if the model was not trained to fill in. */
export function infillTokensOf({ tokenizer: { infill } }: PromptContext, param: string): InfillTokens {
  if (infill !== undefined) return infill;
  const message = `${param}: expected a model with tokens for filling in, got a model without`;
  throw new MillraceError("unsupported_field", message, { param, hint: "use a model made for code" });
}

/** The offset of each prompt token's text, in code points of the prompt's text. */
export function promptOffsets(tokenizer: Tokenizer, prompt: Prompt, keepSpecial: boolean): number[] {
  const decoder = new StreamDecoder(tokenizer, { keepSpecial });
  let offset = 0;
  return Array.from(prompt.ids, (id) => {
    const start = offset;
    offset += countCodePoints(decoder.push(id));
    return start;
  });
}
