/**
 * Resolves a request's `model`: one of the served names, with or without Ollama's tag, or the first if the request
 * names
 * none.
 */
import { MillraceError } from "../../core/errors.js";
import { withoutTag } from "../../core/ollama-api.js";
import type { ServeContext } from "../http/context.js";

export function resolveModelName(context: ServeContext, name: string | undefined): string {
  if (name === undefined) return context.modelNames[0];
  const plain = withoutTag(name, context.modelNames);
  if (context.modelNames.includes(plain)) return plain;
  const got = name.length <= 80 ? name : `${name.slice(0, 77)}...`;
  const known = context.modelNames.map((known) => `"${known}"`).join(", ");
  throw new MillraceError("model_not_found", `expected the model to be one of ${known}, got "${got}"`, {
    param: "model",
    hint: "GET /v1/models lists them",
  });
}
