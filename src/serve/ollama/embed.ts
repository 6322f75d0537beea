/** POST /api/embed, and the earlier releases' /api/embeddings. */
import { z } from "zod";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { requestTerms } from "../http/request-terms.js";
import { encodeInputs, pooledVectors, resolveDimensions, totalTokens, toUnitVector } from "../openai/embeddings.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { integerIn, modelField } from "../openai/schema-parts.js";

const schema = z.strictObject({
  model: modelField.optional(),
  input: z.union([z.string(), z.array(z.string())]).optional(),
  truncate: z.boolean().optional(),
  dimensions: integerIn(1, 2 ** 31 - 1).optional(),
});

const LENIENT = { inert: new Set<string>(), ignoresUnknown: true, unsupported: {} } as const;

export const EMBED_RULES: FieldRules<(typeof schema)["shape"]> = { schema, ...LENIENT };

const legacySchema = z.strictObject({ model: modelField.optional(), prompt: z.string() });

export const LEGACY_EMBED_RULES: FieldRules<(typeof legacySchema)["shape"]> = { schema: legacySchema, ...LENIENT };

/** Cuts a text to the model's length. */
const TO_LENGTH = -1;

export async function embed(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, EMBED_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const numDimensions = resolveDimensions(context, request.dimensions);
  const truncate = request.truncate === false ? undefined : TO_LENGTH;
  const { input = "" } = request;
  // Clients use an empty text to load a model.
  const isNothing = input.length === 0;
  if (isNothing) c.get("note").answered();
  const prompts = isNothing ? [] : await encodeInputs(context, input, { param: "input", truncate });
  const vectors = isNothing ? [] : await pooledVectors(c, context, prompts, requestTerms(c, context, {}));
  return c.json({
    model: request.model ?? resolveModelName(context, undefined),
    embeddings: vectors.map((pooled) => Array.from(toUnitVector(pooled, numDimensions))),
    total_duration: Math.round(1e6 * (performance.now() - c.get("startMs"))),
    load_duration: 0,
    prompt_eval_count: totalTokens(prompts),
  });
}

export async function legacyEmbed(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, LEGACY_EMBED_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  if (request.prompt === "") {
    c.get("note").answered();
    return c.json({ embedding: [] });
  }
  const prompts = await encodeInputs(context, request.prompt, { param: "prompt", truncate: TO_LENGTH });
  const [pooled] = await pooledVectors(c, context, prompts, requestTerms(c, context, {}));
  return c.json({ embedding: Array.from(toUnitVector(pooled!, resolveDimensions(context, undefined))) });
}
