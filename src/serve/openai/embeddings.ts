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

function planPrompt(context: ServeContext, promptIds: Int32Array, terms: RequestTerms): GenerationRequest[] {
  const plan = {
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
  const prompts = await encodePrompts(context, request.input as PromptField, {
    param: "input",
    addSpecial: request.add_special_tokens ?? true,
    keepSpecial: true,
    truncate: request.truncate_prompt_tokens,
  });
  const generations = prompts.flatMap((prompt) => planPrompt(context, prompt.ids, terms));
  const { results } = await collectResults(c, context, generations, terms);
  const numPromptTokens = prompts.reduce((sum, prompt) => sum + prompt.ids.length, 0);
  return c.json({
    object: "list",
    data: results.map(({ pooled }, index) => {
      if (pooled === undefined) {
        throw new MillraceError("internal_error", "expected a vector from the engine, got none");
      }
      const vector = toUnitVector(pooled, numDimensions);
      const embedding = request.encoding_format === "base64" ? toBase64(vector) : Array.from(vector);
      return { object: "embedding", index, embedding };
    }),
    model,
    usage: { prompt_tokens: numPromptTokens, total_tokens: numPromptTokens },
  });
}
