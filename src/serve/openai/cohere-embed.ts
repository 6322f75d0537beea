/** Cohere's POST /v2/embed: vectors of texts, as numbers of several types. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { readJsonObject } from "../http/read-body.js";
import { requestTerms } from "../http/request-terms.js";
import {
  encodeInputs,
  pooledVectors,
  promptNameFor,
  resolveDimensions,
  TEXT_KINDS,
  toBase64,
  totalTokens,
  toUnitVector,
} from "./embeddings.js";
import { type FieldRules, isEmptyArray, parseFields } from "./fields.js";
import { listInTurns } from "./json-in-turns.js";
import { resolveModelName } from "./model-name.js";
import { integerIn, modelField, termsShape } from "./schema-parts.js";

type Vector = Float32Array;

/**
 * The vector's largest value becomes 127 or -127, so that small values are not all 0; the cosine stays the same up to
 * rounding.
 */
function toInt8(vector: Vector): number[] {
  const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return Array.from(vector, (value) => (largest === 0 ? 0 : Math.round((127 * value) / largest)));
}

/** One bit per value, set unless the value is negative; the first of eight is the highest of its byte. */
function toBits(vector: Vector): number[] {
  const bytes = new Uint8Array(vector.length / 8);
  vector.forEach((value, index) => {
    if (value >= 0) bytes[index >> 3]! |= 128 >> (index & 7);
  });
  return Array.from(bytes);
}

const FORMS = {
  float: (vector: Vector) => Array.from(vector),
  int8: toInt8,
  uint8: (vector: Vector) => toInt8(vector).map((value) => value + 128),
  binary: (vector: Vector) => toBits(vector).map((byte) => byte - 128),
  ubinary: toBits,
  base64: (vector: Vector) => toBase64(vector),
} as const;

type Form = keyof typeof FORMS;

const schema = z.strictObject({
  model: modelField.optional(),
  texts: z.array(z.string()).min(1).optional(),
  inputs: z
    .array(z.object({ content: z.array(z.object({ type: z.literal("text"), text: z.string() })).min(1) }))
    .min(1)
    .optional(),
  input_type: z.string().optional(),
  embedding_types: z
    .array(z.enum(Object.keys(FORMS) as [Form, ...Form[]]))
    .min(1)
    .optional(),
  output_dimension: integerIn(1, 2 ** 31 - 1).optional(),
  max_tokens: integerIn(1, 2 ** 31 - 1).optional(),
  truncate: z.enum(["NONE", "START", "END"]).optional(),
  ...termsShape,
});

export const COHERE_EMBED_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(),
  unsupported: { images: isEmptyArray },
};

/**
 * The model's prompt for this kind of text. A kind without a prompt changes nothing, since the model does not
 * distinguish it.
 */
function promptNameOf(context: ServeContext, type: string | undefined): string | undefined {
  if (type === undefined) return undefined;
  const found = promptNameFor(context, type);
  if (found !== undefined || TEXT_KINDS.has(type)) return found;
  const known = [...TEXT_KINDS.keys(), ...(context.embeddingPrompts?.byName.keys() ?? [])].join(", ");
  throw invalidParameter("input_type", `expected one of ${known}, got ${JSON.stringify(type.slice(0, 80))}`);
}

export async function cohereEmbed(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, COHERE_EMBED_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  resolveModelName(context, request.model);
  const { inputs, truncate = "END", embedding_types: forms = ["float"], max_tokens: maxTokens = Infinity } = request;
  const param = inputs === undefined ? "texts" : "inputs";
  const texts = request.texts ?? inputs?.map(({ content }) => content.map(({ text }) => text).join(""));
  if (texts === undefined || (request.texts !== undefined && inputs !== undefined)) {
    throw invalidParameter(param, `expected either texts or inputs, got ${texts === undefined ? "neither" : "both"}`);
  }
  const numDimensions = resolveDimensions(context, request.output_dimension, "output_dimension");
  const ofBits = forms.find((form) => form.endsWith("binary"));
  if (ofBits !== undefined && numDimensions % 8 !== 0) {
    throw invalidParameter("embedding_types", `expected a multiple of 8 values for ${ofBits}, got ${numDimensions}`);
  }
  const prompts = await encodeInputs(context, texts, {
    param,
    promptName: promptNameOf(context, request.input_type),
    truncate: truncate === "NONE" ? undefined : Math.min(maxTokens, context.engine.info.maxModelLen),
    cut: truncate === "START" ? "start" : "end",
  });
  for (const { ids, param: field } of prompts) {
    if (ids.length <= maxTokens) continue;
    const message = `${field}: expected at most max_tokens (${maxTokens}) tokens, got ${ids.length}`;
    throw new MillraceError("invalid_parameter", message, { param: field, hint: 'shorten it, or set "truncate"' });
  }
  const pooled = await pooledVectors(c, context, prompts, terms);
  const vectors = pooled.map((each) => toUnitVector(each, numDimensions));
  const lists: string[] = [];
  for (const form of new Set(forms)) {
    lists.push(`"${form}":[${await listInTurns(vectors.map((vector) => () => FORMS[form](vector)))}]`);
  }
  const numTokens = totalTokens(prompts);
  const before = JSON.stringify({
    id: c.get("requestId"),
    response_type: "embeddings_by_type",
    texts,
    meta: {
      api_version: { version: "2" },
      billed_units: { input_tokens: numTokens },
      tokens: { input_tokens: numTokens },
    },
    // Gateways read this field, as in OpenAI's answers.
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  });
  const body = `${before.slice(0, -1)},"embeddings":{${lists.join(",")}}}`;
  return c.body(body, 200, { "Content-Type": "application/json" });
}
