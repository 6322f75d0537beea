/** POST /v1/embeddings. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { GenerationRequest } from "../generation/generation.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults } from "../http/respond.js";
import { encodePrompts, type PromptField, promptField } from "./completion-prompts.js";
import { type FieldRules, parseFields } from "./fields.js";
import { jsonInTurns } from "./json-in-turns.js";
import { resolveModelName } from "./model-name.js";
import { planChoices } from "./sampling.js";
import { integerIn, modelField, samplingShape, termsShape } from "./schema-parts.js";

const schema = z.strictObject({
  model: modelField.optional(),
  input: promptField,
  encoding_format: z.enum(["float", "base64"]).optional(),
  dimensions: integerIn(1, 2 ** 31 - 1).optional(),
  add_special_tokens: z.boolean().optional(),
  truncate_prompt_tokens: samplingShape.truncate_prompt_tokens,
  prompt_name: z.string().optional(),
  ...termsShape,
});

export const EMBEDDING_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(["user"]),
  unsupported: {},
};

/** The first `numDimensions` values, normalised to length 1. */
function toUnitVector(pooled: Float64Array, numDimensions: number): Float32Array {
  const kept = pooled.subarray(0, numDimensions);
  const length = Math.sqrt(kept.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(kept, (value) => (length === 0 ? 0 : value / length));
}

/** Little-endian floats, as OpenAI's clients read them. */
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((value, index) => {
    bytes.writeFloatLE(value, index * 4);
  });
  return bytes.toString("base64");
}

function resolveDimensions(context: ServeContext, asked: number | undefined): number {
  const { embeddingWidth } = context.engine.info;
  if (asked === undefined || asked <= embeddingWidth) return asked ?? embeddingWidth;
  throw new MillraceError(
    "invalid_parameter",
    `dimensions: expected at most the model's ${embeddingWidth}, got ${asked}`,
    { param: "dimensions" },
  );
}

/** The text that goes before each of the request's. Throws invalid_parameter for a name that the model does not have. */
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

/** Token ids are taken as they are. */
function withPrompt(input: PromptField, text: string): PromptField {
  if (text === "") return input;
  if (typeof input === "string") return text + input;
  return input.every((item) => typeof item === "string") ? input.map((item) => text + item) : input;
}

/** A request for the pooled vector of a prompt. */
export function planPooling(
  context: ServeContext,
  promptIds: Int32Array,
  terms: RequestTerms,
  secondTextStart?: number,
): GenerationRequest[] {
  const plan = {
    secondTextStart,
    fields: {},
    terms,
    promptIds,
    reading: undefined,
    recipe: undefined,
    maxTokens: 0,
    maxTokensField: "input",
    promptField: "input",
    numLogprobs: undefined,
    numPromptLogprobs: undefined,
    pooling: context.engine.info.pooling,
  };
  return planChoices(context, plan, 1, 0n);
}

export async function embeddings(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, EMBEDDING_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const numDimensions = resolveDimensions(context, request.dimensions);
  const input = withPrompt(request.input, promptTextOf(context, request.prompt_name));
  const prompts = await encodePrompts(context, input, {
    keepsStart: !context.engine.info.isCausal,
    param: "input",
    addSpecial: request.add_special_tokens ?? true,
    keepSpecial: true,
    truncate: request.truncate_prompt_tokens,
  });
  const generations = prompts.flatMap((prompt) => planPooling(context, prompt.ids, terms));
  const { results } = await collectResults(c, context, generations, terms);
  const numPromptTokens = prompts.reduce((sum, prompt) => sum + prompt.ids.length, 0);
  const items = results.map(({ pooled }, index) => () => {
    if (pooled === undefined) throw new MillraceError("internal_error", "expected a vector from the engine, got none");
    const vector = toUnitVector(pooled, numDimensions);
    const embedding = request.encoding_format === "base64" ? toBase64(vector) : Array.from(vector);
    return { object: "embedding", index, embedding };
  });
  return jsonInTurns(c, { object: "list" }, ["data", items], () => ({
    model,
    usage: { prompt_tokens: numPromptTokens, total_tokens: numPromptTokens },
  }));
}
