/** What routing needs to know of a request, read from its JSON. Whether the rest makes sense is for the engine to say. */
import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import type { JobOwner } from "../../text/async-tokenizer.js";
import { type KeySource, type RequestBody, withoutPrefix } from "../routing/key-source.js";
import type { RoutedRequest, RoutingOptions } from "../routing/router.js";
import type { Route } from "./routes.js";

/** Requests often ask for more than they get. */
const MAX_OUTPUT_TOKENS = 4096;

interface RequestTerms {
  readonly route: Route;
  readonly path: string;
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly headers: IncomingHttpHeaders;
  readonly keySource: KeySource;
  readonly defaultOutputTokens: number;
  /** Whose cached prefixes it may use; "": everybody's. */
  readonly cacheScope: string;
  readonly owner: JobOwner;
}

/**
 * The model that a request names, or the fleet's only one.
 * @param models every name
 * @param ofName what a name stands for
 */
export function modelOf(body: RequestBody, models: readonly string[], ofName = (name: string) => name): string {
  const { model } = body;
  if (model === undefined && new Set(models.map(ofName)).size === 1) return models[0]!;
  if (typeof model === "string" && models.includes(model)) return model;
  const got =
    typeof model === "string" ? JSON.stringify(model.slice(0, 80)) : model === undefined ? "none" : "no string";
  throw new MillraceError("model_not_found", `expected the model to be one of ${models.join(", ")}, got ${got}`, {
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
    session: options.policy === "session" ? sessionOf(terms.headers[options.sessionHeader], body) : undefined,
  };
}

export function priorityOf(body: RequestBody): number {
  return typeof body.priority === "number" ? body.priority : 0;
}

function countOf(value: unknown): number {
  return typeof value === "number" && value >= 1 ? Math.min(Math.floor(value), 1024) : 1;
}

/** A list of texts, or of lists of ids, is that many prompts; a list of ids is one. */
function numPrompts(prompt: unknown): number {
  return Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
}

function outputTokens(body: RequestBody, defaultTokens: number): number {
  const asked = body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens;
  return typeof asked === "number" && asked >= 1 ? Math.min(asked, MAX_OUTPUT_TOKENS) : defaultTokens;
}

/** The header's, or what the APIs have for it: conversations, cache keys, users. */
function sessionOf(header: string | string[] | undefined, body: RequestBody): string | undefined {
  const { conversation, metadata } = body as { conversation?: unknown; metadata?: { user_id?: unknown } | null };
  const conversationId = (conversation as { id?: unknown } | null | undefined)?.id ?? conversation;
  const names = [header, conversationId, body.prompt_cache_key, body.user, metadata?.user_id];
  return names.find((name): name is string => typeof name === "string" && name !== "");
}
