/** llama-server's POST /infill: editors send the text around the cursor, and excerpts of other files. */
import { z } from "zod";
import type { InfillTokens } from "../../text/tokenizer/infill-tokens.js";
import type { AppContext, PromptContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { encodePrompts, infillPrompts, infillTokensOf } from "../openai/completion-prompts.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { LLAMA_INERT_FIELDS, LLAMA_UNSUPPORTED } from "../openai/llama-fields.js";
import { assertMayBeTruncated } from "../openai/prompt-size.js";
import { checked } from "../openai/schema-parts.js";
import { LLAMA_ALIASES, llamaShape, respondAsLlama } from "./completion.js";

interface ExtraText {
  readonly text: string;
  readonly filename?: string;
}

const MAX_EXTRA = 1024;

function isExtraText(value: unknown): value is ExtraText {
  const { text, filename } = (value ?? {}) as Partial<Record<keyof ExtraText, unknown>>;
  return typeof text === "string" && (filename === undefined || typeof filename === "string");
}

const extraField = checked<readonly ExtraText[]>(
  `up to ${MAX_EXTRA} objects with text, and filename where there is one`,
  (value) => Array.isArray(value) && value.length <= MAX_EXTRA && value.every(isExtraText),
);

const infillSchema = z.strictObject({
  ...llamaShape,
  input_prefix: z.string(),
  input_suffix: z.string(),
  input_extra: extraField.optional(),
  prompt: z.string().optional(),
});

export const INFILL_RULES: FieldRules<(typeof infillSchema)["shape"]> = {
  schema: infillSchema,
  aliases: LLAMA_ALIASES,
  inert: LLAMA_INERT_FIELDS,
  unsupported: LLAMA_UNSUPPORTED,
};

/**
 * llama-server's default names, and its line between texts for models without a token for it
 * (tools/server/README.md, /infill).
 */
const REPOSITORY = "myproject\n";
const UNNAMED = "tmp";
const THIS_FILE = "filename\n";
const BETWEEN = "\n\n--- snippet ---\n\n";

/** Tokens of the further texts, each with its file's name if the model has a token for files. */
async function extraIds(context: PromptContext, infill: InfillTokens, extra: readonly ExtraText[]): Promise<number[]> {
  const param = "input_extra";
  assertMayBeTruncated(
    extra.reduce((sum, { text, filename = "" }) => sum + text.length + filename.length, 0),
    param,
  );
  const { repository, file } = infill;
  const titled = extra.flatMap(({ text, filename = UNNAMED }) => [
    file === undefined ? BETWEEN : `${filename}\n`,
    text,
  ]);
  const options = { addSpecial: false, parseSpecial: false };
  const encoded = await context.asyncTokenizer.encode([REPOSITORY, THIS_FILE, ...titled], options);
  const [repositoryIds, thisFileIds, ...others] = encoded.map(({ ids }) => Array.from(ids));
  const marker = file === undefined ? [] : [file];
  return [
    ...(repository === undefined ? [] : [repository, ...repositoryIds!]),
    ...others.flatMap((ids, i) => (i % 2 === 0 ? [...marker, ...ids] : ids)),
    ...(file === undefined ? [] : [file, ...thisFileIds!]),
  ];
}

export async function infill(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, INFILL_RULES, await readJsonObject(c, context.limits));
  const { input_prefix: before, input_suffix: suffix, input_extra: extra = [], prompt = "", n_predict = -1 } = request;
  const text = before + prompt;
  const options = { addSpecial: false, keepSpecial: false, truncate: undefined, param: "input_prefix" };
  // A gap at the start has no text before it.
  const encoded = text === "" ? [{ ids: new Int32Array(0), text }] : await encodePrompts(context, text, options);
  const gap = { suffix, addSpecial: true, param: "input_suffix" };
  if (extra.length === 0) return respondAsLlama(c, context, request, await infillPrompts(context, encoded, gap));
  const ids = await extraIds(context, infillTokensOf(context, gap.param), extra);
  // An answer without a limit gets a quarter of the context.
  const numWanted = n_predict < 0 ? Math.ceil(context.engine.info.maxModelLen / 4) : n_predict;
  const prompts = await infillPrompts(context, encoded, { ...gap, extra: { ids, numWanted } });
  return respondAsLlama(c, context, request, prompts);
}
