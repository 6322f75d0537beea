/** llama-server's POST /embedding and /embeddings: each input's vector is inside a list. */
import { z } from "zod";
import type { AppContext, ServeContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { readJsonObject } from "../http/read-body.js";
import { requestTerms } from "../http/request-terms.js";
import { promptField } from "../openai/completion-prompts.js";
import { encodeInputs, pooledVectors, toUnitVector } from "../openai/embeddings.js";
import { type FieldRules, isOneOf, parseFields } from "../openai/fields.js";
import { listInTurns } from "../openai/json-in-turns.js";
import { resolveModelName } from "../openai/model-name.js";
import { modelField, termsShape } from "../openai/schema-parts.js";
import { withoutObjects } from "./mixed-prompts.js";

const inputField = z.preprocess(withoutObjects, promptField);

const schema = z.strictObject({
  model: modelField.optional(),
  input: inputField.optional(),
  content: inputField.optional(),
  ...termsShape,
});

export const LLAMA_EMBEDDING_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(["user"]),
  // Vectors have length 1, as by its default.
  unsupported: { embd_normalize: isOneOf(2), encoding_format: isOneOf("float") },
};

export async function llamaEmbedding(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, LLAMA_EMBEDDING_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  resolveModelName(context, request.model);
  const param = request.input === undefined ? "content" : "input";
  const input = request[param];
  if (input === undefined) throw invalidParameter(param, "expected it or input, got neither");
  const prompts = await encodeInputs(context, input, { param, truncate: undefined });
  const vectors = await pooledVectors(c, context, prompts, terms);
  const { embeddingWidth } = context.engine.info;
  const items = vectors.map((pooled, index) => () => ({
    index,
    embedding: [Array.from(toUnitVector(pooled, embeddingWidth))],
  }));
  return c.body(`[${await listInTurns(items)}]`, 200, { "Content-Type": "application/json" });
}
