/**
 * Scores of texts against a query: /rerank in the shape of Cohere's and Jina's APIs, ordered by score, and /score in vLLM's, in the order of the
 * request. A model with a rank head reads both texts at once; an embedding model compares their vectors by the cosine (of /score alone).
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { GenerationRequest } from "../generation/generation.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults } from "../http/respond.js";
import { encodePrompts } from "./completion-prompts.js";
import { planPooling } from "./embeddings.js";
import { type FieldRules, never, parseFields } from "./fields.js";
import { resolveModelName } from "./model-name.js";
import { encodePairs, noInstructions, type PairPrompt, type TextPair } from "./pair-prompts.js";
import { contextExceeded } from "./prompt-size.js";
import { checked, integerIn, modelField, samplingShape, termsShape } from "./schema-parts.js";

/** A document is a text, or an object that has one. */
type DocumentField = string | { readonly text: string };

const isDocument = (value: unknown): value is DocumentField =>
  typeof value === "string" ||
  (typeof value === "object" && value !== null && typeof (value as { text?: unknown }).text === "string");

const documentsField = checked<readonly DocumentField[]>(
  "a list of at least one text, or of objects with a text",
  (value) => Array.isArray(value) && value.length > 0 && value.every(isDocument),
);
const textsField = checked<string | readonly string[]>(
  "a text or a list of at least one text",
  (value) =>
    typeof value === "string" ||
    (Array.isArray(value) && value.length > 0 && value.every((v) => typeof v === "string")),
);

const rerankSchema = z.strictObject({
  model: modelField.optional(),
  query: z.string().min(1),
  documents: documentsField,
  top_n: integerIn(1, 2 ** 31 - 1).optional(),
  return_documents: z.boolean().optional(),
  instruction: z.string().optional(),
  truncate_prompt_tokens: samplingShape.truncate_prompt_tokens,
  ...termsShape,
});

export const RERANK_RULES: FieldRules<(typeof rerankSchema)["shape"]> = {
  schema: rerankSchema,
  inert: new Set(["user"]),
  unsupported: {
    rank_fields: never,
    max_chunks_per_doc: never,
    max_tokens_per_doc: never,
  },
};

const scoreSchema = z.strictObject({
  model: modelField.optional(),
  text_1: textsField,
  text_2: textsField,
  encoding_format: z.literal("float").optional(),
  instruction: z.string().optional(),
  truncate_prompt_tokens: samplingShape.truncate_prompt_tokens,
  ...termsShape,
});

export const SCORE_RULES: FieldRules<(typeof scoreSchema)["shape"]> = {
  schema: scoreSchema,
  inert: new Set(["user"]),
  unsupported: {},
};

interface PairFields {
  /** The field that has a text for each pair. */
  readonly param: string;
  readonly truncate_prompt_tokens?: number | undefined;
  readonly instruction?: string | undefined;
}

interface Scores {
  /** One for each pair. */
  readonly values: readonly number[];
  readonly numTokens: number;
}

export async function rerank(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, RERANK_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const texts = request.documents.map((document) => (typeof document === "string" ? document : document.text));
  const pairs = texts.map(
    (text, index): TextPair => [
      { text: request.query, param: "query" },
      { text, param: `documents[${index}]` },
    ],
  );
  assertNumPairs(context, pairs, "documents");
  const { values, numTokens } = await scoresOf(c, context, pairs, { ...request, param: "documents" }, terms);
  // Among equal scores the earlier document is first.
  const order = values.map((_, index) => index).sort((a, b) => values[b]! - values[a]! || a - b);
  const shown = order.slice(0, request.top_n ?? order.length);
  return c.json({
    id: `rerank-${c.get("requestId")}`,
    object: "list",
    model,
    results: shown.map((index) => ({
      index,
      relevance_score: values[index],
      ...(request.return_documents === true ? { document: { text: texts[index] } } : {}),
    })),
    // Cohere's clients read `meta`, Jina's and vLLM's `usage`.
    meta: { api_version: { version: "2" }, billed_units: { search_units: 1 }, tokens: { input_tokens: numTokens } },
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  });
}

export async function score(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, SCORE_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const pairs = pairsOf(request.text_1, request.text_2);
  assertNumPairs(context, pairs, "text_2");
  const isReranker = context.engine.info.tasks.includes("rerank");
  const { values, numTokens } = await (isReranker ? scoresOf : cosinesOf)(
    c,
    context,
    pairs,
    { ...request, param: "text_2" },
    terms,
  );
  return c.json({
    id: `score-${c.get("requestId")}`,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model,
    data: values.map((value, index) => ({ index, object: "score", score: value })),
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  });
}

/** One text with each of several, or as many with as many. */
function pairsOf(first: string | readonly string[], second: string | readonly string[]): readonly TextPair[] {
  const queries = typeof first === "string" ? [first] : first;
  const texts = typeof second === "string" ? [second] : second;
  if (queries.length !== 1 && queries.length !== texts.length) {
    const message = `text_1: expected one text, or as many as text_2 has (${texts.length}), got ${queries.length}`;
    throw new MillraceError("invalid_parameter", message, { param: "text_1" });
  }
  const paramOf = (name: string, value: unknown, index: number) =>
    typeof value === "string" ? name : `${name}[${index}]`;
  return texts.map((text, index): TextPair => {
    const at = queries.length === 1 ? 0 : index;
    return [
      { text: queries[at]!, param: paramOf("text_1", first, at) },
      { text, param: paramOf("text_2", second, index) },
    ];
  });
}

function assertNumPairs({ limits }: ServeContext, pairs: readonly TextPair[], param: string): void {
  if (pairs.length <= limits.maxSequencesPerRequest) return;
  const message = `${param}: expected at most ${limits.maxSequencesPerRequest} texts, got ${pairs.length}`;
  throw new MillraceError("invalid_parameter", message, { param });
}

async function scoresOf(
  c: AppContext,
  context: ServeContext,
  pairs: readonly TextPair[],
  { truncate_prompt_tokens: truncate, instruction, param }: PairFields,
  terms: RequestTerms,
): Promise<Scores> {
  const prompts = await encodePairs(context, pairs, { truncate, instruction, param });
  const plan = ({ ids, secondTextStart }: PairPrompt) => planPooling(context, ids, terms, secondTextStart);
  const pooled = await pooledOf(c, context, prompts.flatMap(plan), terms);
  return {
    values: pooled.map(([value]) => value!),
    numTokens: prompts.reduce((sum, { ids }) => sum + ids.length, 0),
  };
}

/** Of an embedding model: each text is embedded once. */
async function cosinesOf(
  c: AppContext,
  context: ServeContext,
  pairs: readonly TextPair[],
  { truncate_prompt_tokens: truncate, instruction, param }: PairFields,
  terms: RequestTerms,
): Promise<Scores> {
  if (instruction !== undefined) throw noInstructions("an embedding model");
  const paramOf = new Map(pairs.flat().map((each) => [each.text, each.param] as const));
  const texts = [...paramOf.keys()];
  const { maxSequencesPerRequest: most } = context.limits;
  if (texts.length > most) {
    const message = `${param}: expected at most ${most} different texts in text_1 and text_2 together, got ${texts.length}`;
    throw new MillraceError("invalid_parameter", message, { param });
  }
  const prompts = await encodePrompts(context, texts, {
    keepsStart: !context.engine.info.isCausal,
    param,
    paramOf: (index) => paramOf.get(texts[index]!)!,
    addSpecial: true,
    keepSpecial: true,
    truncate,
  });
  const { maxModelLen } = context.engine.info;
  for (const [index, { ids }] of prompts.entries()) {
    if (ids.length > maxModelLen) throw contextExceeded(maxModelLen, ids.length, 0, paramOf.get(texts[index]!)!);
  }
  const pooled = await pooledOf(
    c,
    context,
    prompts.flatMap(({ ids }) => planPooling(context, ids, terms)),
    terms,
  );
  const vectorOf = new Map(texts.map((text, index) => [text, pooled[index]!] as const));
  return {
    values: pairs.map(([a, b]) => cosine(vectorOf.get(a.text)!, vectorOf.get(b.text)!)),
    numTokens: prompts.reduce((sum, { ids }) => sum + ids.length, 0),
  };
}

async function pooledOf(
  c: AppContext,
  context: ServeContext,
  requests: readonly GenerationRequest[],
  terms: RequestTerms,
): Promise<readonly Float64Array[]> {
  const { results } = await collectResults(c, context, requests, terms);
  return results.map(({ pooled }) => {
    if (pooled === undefined) throw new MillraceError("internal_error", "expected a vector from the engine, got none");
    return pooled;
  });
}

function cosine(a: Float64Array, b: Float64Array): number {
  let [product, ofA, ofB] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    product += a[i]! * b[i]!;
    ofA += a[i]! * a[i]!;
    ofB += b[i]! * b[i]!;
  }
  return ofA === 0 || ofB === 0 ? 0 : product / Math.sqrt(ofA * ofB);
}
