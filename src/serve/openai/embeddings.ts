/** POST /v1/embeddings, and vectors of texts for other endpoints. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { numberToF16 } from "../../formats/dequantize.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults } from "../http/respond.js";
import { encodePrompts, type PromptField, promptField } from "./completion-prompts.js";
import { type FieldRules, never, POOLING_UNSUPPORTED, parseFields } from "./fields.js";
import { jsonInTurns } from "./json-in-turns.js";
import { resolveModelName } from "./model-name.js";
import { planChoices } from "./sampling.js";
import { integerIn, isTokenIdArray, modelField, samplingShape, termsShape } from "./schema-parts.js";

const schema = z.strictObject({
  model: modelField.optional(),
  input: promptField,
  encoding_format: z.enum(["float", "base64"]).optional(),
  // vLLM's field, for base64 only.
  embed_dtype: z.enum(["float32", "float16", "bfloat16"]).optional(),
  endianness: z.enum(["native", "little", "big"]).optional(),
  dimensions: integerIn(1, 2 ** 31 - 1).optional(),
  add_special_tokens: z.boolean().optional(),
  truncate_prompt_tokens: samplingShape.truncate_prompt_tokens,
  prompt_name: z.string().optional(),
  // vLLM's field: false keeps the length of the model's vector.
  use_activation: z.boolean().optional(),
  ...termsShape,
});

export const EMBEDDING_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(["user", "request_id"]),
  unsupported: {
    ...POOLING_UNSUPPORTED,
    messages: never,
  },
};

/** The first `numDimensions` values, normalised to length 1. */
export function toUnitVector(pooled: Float64Array, numDimensions: number): Float32Array {
  const kept = pooled.subarray(0, numDimensions);
  const length = Math.sqrt(kept.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(kept, (value) => (length === 0 ? 0 : value / length));
}

const FLOAT = new DataView(new ArrayBuffer(4));

/** The upper half of a finite float's bits, rounded to nearest even. */
function numberToBf16(value: number): number {
  FLOAT.setFloat32(0, value);
  const bits = FLOAT.getUint32(0);
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Little-endian floats, as OpenAI's clients read them, unless the request has vLLM's fields for other formats. */
export function toBase64(
  vector: Float32Array,
  { embed_dtype: dtype = "float32", endianness }: Pick<z.infer<typeof schema>, "embed_dtype" | "endianness"> = {},
): string {
  const size = dtype === "float32" ? 4 : 2;
  const bytes = Buffer.alloc(vector.length * size);
  vector.forEach((value, index) => {
    if (dtype === "float32") bytes.writeFloatLE(value, index * size);
    else bytes.writeUInt16LE(dtype === "float16" ? numberToF16(value) : numberToBf16(value), index * size);
  });
  if (endianness === "big") bytes[size === 4 ? "swap32" : "swap16"]();
  return bytes.toString("base64");
}

export function resolveDimensions(context: ServeContext, asked: number | undefined, param = "dimensions"): number {
  const { embeddingWidth } = context.engine.info;
  if (asked === undefined || asked <= embeddingWidth) return asked ?? embeddingWidth;
  throw new MillraceError(
    "invalid_parameter",
    `${param}: expected at most the model's ${embeddingWidth}, got ${asked}`,
    { param },
  );
}

/**
 * The model's prompt of that name, otherwise its default one, otherwise none. Throws invalid_parameter for a name that
 * the
 * model lacks.
 */
function promptTextOf({ embeddingPrompts }: ServeContext, asked: string | undefined): string {
  const { byName = new Map<string, string>(), defaultName } = embeddingPrompts ?? {};
  const name = asked ?? defaultName;
  if (name === undefined) return "";
  const text = byName.get(name);
  if (text !== undefined) return text;
  const known = byName.size === 0 ? "none: the model has no prompts" : [...byName.keys()].join(", ");
  throw new MillraceError("invalid_parameter", `prompt_name: expected one of ${known}, got ${JSON.stringify(name)}`, {
    param: "prompt_name",
  });
}

/** Cohere's kind of text → the names of its prompt in sentence-transformers. */
export const TEXT_KINDS: ReadonlyMap<string, readonly string[]> = new Map([
  ["search_query", ["query"]],
  ["search_document", ["document", "passage", "corpus"]],
  ["classification", []],
  ["clustering", []],
]);

/** @returns name of the model's prompt for a kind of text, or of exactly that name; undefined: the model has none */
export function promptNameFor({ embeddingPrompts }: ServeContext, kind: string): string | undefined {
  return [kind, ...(TEXT_KINDS.get(kind) ?? [])].find((name) => embeddingPrompts?.byName.has(name));
}

/** Puts the prompt before texts; token ids stay unchanged. */
function withPrompt(input: PromptField, text: string): PromptField {
  if (text === "") return input;
  if (typeof input === "string") return text + input;
  return input.every((item) => typeof item === "string") ? input.map((item) => text + item) : input;
}

interface InputOptions {
  /** The field of the request that has the input. */
  readonly param: string;
  readonly promptName?: string | undefined;
  readonly addSpecial?: boolean | undefined;
  readonly truncate: number | undefined;
  /**
   * Largest number of tokens of a text, beside its prompt and the tokenizer's own; the text loses its last ones.
   * Absent:
   * a text keeps all, since /v1/embeddings has no such field.
   */
  readonly mostOfText?: number | undefined;
  /** The side of a text to cut; absent: its end for encoders, its start for other models. */
  readonly cut?: "start" | "end";
}

/** The tokens of a text, or of a pair of texts, for a vector or a score. */
export interface PooledPrompt {
  readonly ids: Int32Array;
  /** Position of the second text's first token; undefined: there is one text, or the model does not distinguish two. */
  readonly secondTextStart?: number | undefined;
  /** The request's field for errors. */
  readonly param: string;
}

/** `truncate`, lowered to `mostOfText` tokens plus the tokens around them, unless the model reads fewer. */
async function truncationFor(context: ServeContext, truncate: number | undefined, mostOfText: number, prompt: string) {
  const { maxModelLen } = context.engine.info;
  // A space at the prompt's end belongs to the text's first token.
  const [around] = await context.asyncTokenizer.encode([prompt.trimEnd()], { addSpecial: true, parseSpecial: true });
  const most = mostOfText + around!.ids.length;
  return most > maxModelLen || (truncate !== undefined && truncate !== -1 && truncate < most) ? truncate : most;
}

/** The tokens of texts to embed. */
export async function encodeInputs(
  context: ServeContext,
  input: PromptField,
  { param, promptName, addSpecial = true, truncate, mostOfText, cut }: InputOptions,
): Promise<readonly PooledPrompt[]> {
  const prompt = promptTextOf(context, promptName);
  const prompts = await encodePrompts(context, withPrompt(input, prompt), {
    keepsEnds: cut ?? (context.engine.info.isCausal && mostOfText === undefined ? undefined : "end"),
    param,
    addSpecial,
    keepSpecial: true,
    truncate: mostOfText === undefined ? truncate : await truncationFor(context, truncate, mostOfText, prompt),
  });
  const isOne = typeof input === "string" || isTokenIdArray(input);
  return prompts.map(({ ids }, index) => ({ ids, param: isOne ? param : `${param}[${index}]` }));
}

/** The model's vector for each prompt, not normalised; for a reranker, its score. */
export async function pooledVectors(
  c: AppContext,
  context: ServeContext,
  prompts: readonly PooledPrompt[],
  terms: RequestTerms,
): Promise<readonly Float64Array[]> {
  const plans = prompts.map(({ ids, secondTextStart, param }) => ({
    secondTextStart,
    fields: {},
    terms,
    promptIds: ids,
    reading: undefined,
    recipe: undefined,
    maxTokens: 0,
    maxTokensField: param,
    promptField: param,
    numLogprobs: undefined,
    numPromptLogprobs: undefined,
    pooling: context.engine.info.pooling,
  }));
  const requests = planChoices(context, plans, 1, () => 0n);
  const { results } = await collectResults(c, context, requests, terms);
  return results.map(({ pooled }) => {
    if (pooled === undefined) throw new MillraceError("internal_error", "expected a vector from the engine, got none");
    return pooled;
  });
}

export const totalTokens = (prompts: readonly PooledPrompt[]): number =>
  prompts.reduce((sum, { ids }) => sum + ids.length, 0);

export async function embeddings(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, EMBEDDING_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const numDimensions = resolveDimensions(context, request.dimensions);
  const prompts = await encodeInputs(context, request.input, {
    param: "input",
    promptName: request.prompt_name,
    addSpecial: request.add_special_tokens,
    truncate: request.truncate_prompt_tokens,
  });
  const vectors = await pooledVectors(c, context, prompts, terms);
  const numPromptTokens = totalTokens(prompts);
  const items = vectors.map((pooled, index) => () => {
    const isUnit = request.use_activation !== false;
    const vector = isUnit ? toUnitVector(pooled, numDimensions) : Float32Array.from(pooled.subarray(0, numDimensions));
    const embedding = request.encoding_format === "base64" ? toBase64(vector, request) : Array.from(vector);
    return { object: "embedding", index, embedding };
  });
  return jsonInTurns(c, { object: "list" }, ["data", items], () => ({
    model,
    usage: { prompt_tokens: numPromptTokens, total_tokens: numPromptTokens },
  }));
}
