/** Reads the fields of a request's JSON that routing needs. The engine validates the rest. */
import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { withoutTag } from "../../core/ollama-api.js";
import type { Route } from "../../gateway/api/routes.js";
import type { RequestBody } from "../../gateway/request.js";
import { sessionOf } from "../../gateway/session.js";
import type { JobOwner } from "../../text/async-tokenizer.js";
import { type KeySource, withoutPrefix } from "../routing/key-source.js";
import type { RoutedRequest, RoutingOptions } from "../routing/router.js";

/** Largest number of output tokens that a choice counts as: requests often ask for far more than they get. */
const MAX_OUTPUT_TOKENS = 4096;

/** Marks a request from another region's gateway: two full regions would otherwise pass it back and forth forever. */
export const FROM_AFAR_HEADER = "x-millrace-from-afar";

interface RequestTerms {
  readonly route: Route;
  readonly path: string;
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly headers: IncomingHttpHeaders;
  readonly keySource: KeySource;
  readonly defaultOutputTokens: number;
  /** Cache scope of the request; "": the shared one. */
  readonly cacheScope: string;
  readonly owner: JobOwner;
}

/**
 * The name of the model in a request, without Ollama's tag; if it names none, the fleet's only model.
 * @param models every name of a model that clients may send
 * @param ofName resolves a name to a model
 * @param virtual further names, which stand for no single model
 * @param isShown whether an error may name a model
 */
export function modelOf(
  body: RequestBody,
  models: readonly string[],
  ofName = (name: string) => name,
  virtual: readonly string[] = [],
  isShown: (name: string) => boolean = () => true,
): string {
  const { model } = body;
  if (model === undefined && new Set(models.map(ofName)).size === 1) return models[0]!;
  const all = [...models, ...virtual];
  const named = typeof model === "string" ? withoutTag(model, all) : undefined;
  if (named !== undefined && all.includes(named)) return named;
  const got =
    typeof model === "string" ? JSON.stringify(model.slice(0, 80)) : model === undefined ? "none" : "no string";
  const shown = all.filter(isShown).join(", ") || "none";
  throw new MillraceError("model_not_found", `expected the model to be one of ${shown}, got ${got}`, {
    param: "model",
  });
}

export async function routedRequest(
  model: string,
  terms: RequestTerms,
  options: RoutingOptions,
): Promise<RoutedRequest> {
  const { body, route } = terms;
  const numSequences = route.isGeneration ? countOf(body.n) * numPrompts(body.prompt) : 1;
  return {
    model,
    prefix: route.isGeneration
      ? await terms.keySource.keysOf(body, terms.path, terms.bytes.length, terms.cacheScope, terms.owner)
      : withoutPrefix(terms.bytes.length),
    outputTokens: route.isGeneration ? numSequences * outputTokens(body, terms.defaultOutputTokens) : 0,
    numSequences,
    isFromAfar: terms.headers[FROM_AFAR_HEADER] !== undefined,
    session: options.policy === "session" ? sessionOf(terms.headers, options.sessionHeader, body) : undefined,
  };
}

export function priorityOf(body: RequestBody): number {
  return typeof body.priority === "number" ? body.priority : 0;
}

function countOf(value: unknown): number {
  return typeof value === "number" && value >= 1 ? Math.min(Math.floor(value), 1024) : 1;
}

/** A list of texts, or of lists of ids, has one prompt per item; a list of ids is one prompt. */
function numPrompts(prompt: unknown): number {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
}

function outputTokens(body: RequestBody, defaultTokens: number): number {
  const asked = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  return typeof asked === "number" && asked >= 1 ? Math.min(asked, MAX_OUTPUT_TOKENS) : defaultTokens;
}
