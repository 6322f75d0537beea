/**
 * Scores of texts for a query: /rerank in the form of Cohere's and Jina's APIs, ordered by score, and /score in vLLM's,
 * in
 * the request's order. A model with a rank head reads both texts at once; an embedding model answers with the cosine of
 * the two vectors.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import type { Aliases } from "./aliases.js";
import { encodeInputs, type PooledPrompt, pooledVectors, promptNameFor, totalTokens } from "./embeddings.js";
import { type FieldRules, isEmptyObject, isOneOf, never, POOLING_UNSUPPORTED, parseFields } from "./fields.js";
import { resolveModelName } from "./model-name.js";
import { encodePairs, noInstruction, type TextPair } from "./pair-prompts.js";
import { checked, integerIn, modelField, samplingShape, termsShape } from "./schema-parts.js";

/** A document is a text, or an object with a text. */
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

/** vLLM's fields for both endpoints, with the values without effect. */
const VLLM_FIELDS = {
  ...POOLING_UNSUPPORTED,
  chat_template_kwargs: isEmptyObject,
  use_activation: isOneOf(true),
  max_tokens_per_query: isOneOf(0),
} as const;

const rerankSchema = z.strictObject({
  model: modelField.optional(),
  query: z.string().min(1),
  documents: documentsField.optional(),
  // Text Embeddings Inference's field.
  texts: documentsField.optional(),
  return_text: z.boolean().optional(),
  top_n: integerIn(0, 2 ** 31 - 1).optional(),
  max_tokens_per_doc: integerIn(0, 2 ** 31 - 1).optional(),
  return_documents: z.boolean().optional(),
  instruction: z.string().optional(),
  truncate_prompt_tokens: samplingShape.truncate_prompt_tokens,
  ...termsShape,
});

export const RERANK_RULES: FieldRules<(typeof rerankSchema)["shape"]> = {
  schema: rerankSchema,
  inert: new Set(["user", "request_id"]),
  unsupported: {
    ...VLLM_FIELDS,
    raw_scores: isOneOf(false),
    rank_fields: never,
    max_chunks_per_doc: never,
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

const named =
  (name: string): Aliases[string] =>
  (value) => [[name, value]];

export const SCORE_RULES: FieldRules<(typeof scoreSchema)["shape"]> = {
  schema: scoreSchema,
  inert: new Set(["user", "request_id"]),
  // vLLM's names for the two sides.
  aliases: {
    queries: named("text_1"),
    data_1: named("text_1"),
    documents: named("text_2"),
    items: named("text_2"),
    data_2: named("text_2"),
  },
  unsupported: { ...VLLM_FIELDS, max_tokens_per_doc: isOneOf(0) },
};

type ScoreRequest = z.infer<typeof scoreSchema>;

/** The fields of both endpoints that affect the tokens of pairs. */
type PairFields = Pick<ScoreRequest, "instruction" | "truncate_prompt_tokens">;

/** One side of the pairs. */
interface Side {
  readonly texts: TextsField;
  /** The field with the texts. */
  readonly param: string;
  /** Name of the prompt that an embedding model gets before each text; absent: the default one. */
  readonly promptName?: string | undefined;
  /** Largest number of each text's tokens; the text loses its last ones. Absent: a text keeps all, as in /score. */
  readonly mostOfText?: number | undefined;
}

/** The second side has a text for each pair; the first has as many, or one for all. */
type Sides = readonly [first: Side, second: Side];

interface Scores {
  /** One per pair. */
  readonly values: readonly number[];
  readonly numTokens: number;
}

export async function rerank(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, RERANK_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const { documents = request.texts } = request;
  const param = request.documents === undefined && documents !== undefined ? "texts" : "documents";
  if (documents === undefined || (request.documents !== undefined && request.texts !== undefined)) {
    const got = documents === undefined ? "neither" : "both";
    throw new MillraceError("invalid_parameter", `documents: expected either documents or texts, got ${got}`, {
      param,
    });
  }
  const texts = documents.map((document) => (typeof document === "string" ? document : document.text));
  const query = { texts: request.query, param: "query", promptName: promptNameFor(context, "search_query") };
  const promptName = promptNameFor(context, "search_document");
  // 0 means all tokens, as in vLLM's API.
  const sides = [query, { texts, param, promptName, mostOfText: request.max_tokens_per_doc || undefined }] as const;
  const { values, numTokens } = await scoresOf(c, context, sides, request, terms);
  // Among equal scores, the earlier document comes first.
  const order = values.map((_, index) => index).sort((a, b) => values[b]! - values[a]! || a - b);
  // 0 means all in requests of vLLM's clients.
  const shown = request.top_n ? order.slice(0, request.top_n) : order;
  if (param === "texts") {
    const withText = (index: number) => (request.return_text === true ? { text: texts[index] } : {});
    return c.json(shown.map((index) => ({ index, score: values[index], ...withText(index) })));
  }
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
    meta: { api_version: { version: "2" }, tokens: { input_tokens: numTokens } },
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  });
}

export async function score(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, SCORE_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const [numFirst, numSecond] = [numTexts(request.text_1), numTexts(request.text_2)];
  if (numFirst !== 1 && numFirst !== numSecond) {
    const message = `text_1: expected one text, or as many as text_2 has (${numSecond}), got ${numFirst}`;
    throw new MillraceError("invalid_parameter", message, { param: "text_1" });
  }
  const sides = [
    { texts: request.text_1, param: "text_1" },
    { texts: request.text_2, param: "text_2" },
  ] as const;
  const { values, numTokens } = await scoresOf(c, context, sides, request, terms);
  return c.json({
    id: `score-${c.get("requestId")}`,
    object: "list",
    created: Math.floor(Date.now() / 1000),
    model,
    data: values.map((value, index) => ({ index, object: "score", score: value })),
    usage: { prompt_tokens: numTokens, total_tokens: numTokens },
  });
}

type TextsField = string | readonly string[];

const numTexts = (field: TextsField): number => (typeof field === "string" ? 1 : field.length);

/** The item of pair `index`; a single item belongs to every pair. */
const itemOf = <Item>(items: readonly Item[], index: number): Item => items[items.length === 1 ? 0 : index]!;

/** @param count sequences that the engine computes for the request */
function assertNumTexts({ limits }: ServeContext, count: number, param: string, where = ""): void {
  if (count <= limits.maxSequencesPerRequest) return;
  const message = `${param}: expected at most ${limits.maxSequencesPerRequest} texts${where}, got ${count}`;
  throw new MillraceError("invalid_parameter", message, { param });
}

function scoresOf(c: AppContext, context: ServeContext, sides: Sides, fields: PairFields, terms: RequestTerms) {
  const isReranker = context.engine.info.tasks.includes("rerank");
  return isReranker ? headScores(c, context, sides, fields, terms) : cosines(c, context, sides, fields, terms);
}

/** Scores from a reranker, which reads both texts of a pair at once. */
async function headScores(
  c: AppContext,
  context: ServeContext,
  [first, second]: Sides,
  { truncate_prompt_tokens: truncate, instruction }: PairFields,
  terms: RequestTerms,
): Promise<Scores> {
  const named = ({ texts, param }: Side) =>
    typeof texts === "string"
      ? [{ text: texts, param }]
      : texts.map((text, index) => ({ text, param: `${param}[${index}]` }));
  assertNumTexts(context, numTexts(second.texts), second.param);
  const [queries, texts] = [named(first), named(second)];
  const pairs = texts.map((text, index): TextPair => [itemOf(queries, index), text]);
  const { param, mostOfText: mostOfSecond } = second;
  const prompts = await encodePairs(context, pairs, { truncate, instruction, param, mostOfSecond });
  const scores = await pooledVectors(c, context, prompts, terms);
  return { values: scores.map(([value]) => value!), numTokens: totalTokens(prompts) };
}

/** Scores from an embedding model: cosines of the vectors of /v1/embeddings. */
async function cosines(
  c: AppContext,
  context: ServeContext,
  [first, second]: Sides,
  { truncate_prompt_tokens: truncate, instruction }: PairFields,
  terms: RequestTerms,
): Promise<Scores> {
  if (instruction !== undefined) throw noInstruction("an embedding model");
  const numFirst = numTexts(first.texts);
  const where = ` in ${first.param} and ${second.param} together`;
  assertNumTexts(context, numFirst + numTexts(second.texts), second.param, where);
  const { distinct, indices } = distinctOf([
    ...(await encodeInputs(context, first.texts, { ...first, truncate })),
    ...(await encodeInputs(context, second.texts, { ...second, truncate })),
  ]);
  const vectors = await pooledVectors(c, context, distinct, terms);
  const [queries, texts] = [indices.slice(0, numFirst), indices.slice(numFirst)];
  return {
    values: texts.map((text, index) => cosine(vectors[itemOf(queries, index)]!, vectors[text]!)),
    numTokens: totalTokens(distinct),
  };
}

/** The distinct prompts by their tokens, and for each prompt the index of its distinct one. */
function distinctOf(prompts: readonly PooledPrompt[]) {
  const distinct: PooledPrompt[] = [];
  const known = new Map<string, number>();
  const indices = prompts.map((prompt) => {
    const { buffer, byteOffset, byteLength } = prompt.ids;
    const key = Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
    const index = known.get(key) ?? distinct.push(prompt) - 1;
    known.set(key, index);
    return index;
  });
  return { distinct, indices };
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
