/** Decides whether a request's answer is a function of the request, and thus may be kept for equal requests. */
import type { GatewayRequest, RequestBody } from "../request.js";

export interface AnswerRules {
  /**
   * Our engine gives the same answer to the same request, and reads text only, so that no part of a request can point
   * at something that changes.
   */
  readonly isOwnEngine: boolean;
  /** The operator states that another engine, too, gives the same answer to the same request. */
  readonly assumesDeterministic: boolean;
  /** The operator accepts one sampled answer for all equal requests. */
  readonly keepsSampled: boolean;
}

/** Why an answer is not kept, in words for logs and metrics. */
export type Ineligible = "sampled" | "engine" | "state" | "outside";

/** Below it our engine is greedy (src/engine/sampler). Other engines are greedy at 0 alone. */
const GREEDY_BELOW = 1e-5;

/** Fields by which an answer depends on state elsewhere, or changes it. */
const STATE: readonly string[] = ["previous_response_id", "conversation", "background", "container"];
/** Fields by which an answer depends on the outside world. */
const OUTSIDE: readonly string[] = ["web_search_options", "mcp_servers"];

/** Parts of a prompt that refer to something elsewhere. In strings, quotes are escaped, so only members match. */
const REFERENCES =
  /"(?:url|image_url|file_url|audio_url|video_url)":"(?:https?|s3|gs|file):|"(?:file_id|item_reference)"/;

/**
 * @param canonical the body's fields in canonical JSON
 * @returns the reason not to keep the answer; undefined: it is a function of the request
 */
export function ineligible(
  { route, path, body }: Pick<GatewayRequest, "route" | "path" | "body">,
  rules: AnswerRules,
  canonical: string,
): Ineligible | undefined {
  const { isOwnEngine, assumesDeterministic, keepsSampled } = rules;
  if (STATE.some((name) => isSet(body[name]))) return "state";
  // `prompt` of /v1/responses names a template that the provider keeps.
  if (path === "/v1/responses" && isSet(body.prompt)) return "state";
  if (!isOwnEngine && body.store === true) return "state";
  if (OUTSIDE.some((name) => isSet(body[name])) || !areFunctions(body.tools)) return "outside";
  if (!isOwnEngine && REFERENCES.test(canonical)) return "outside";
  if (keepsSampled) return undefined;
  if (!isOwnEngine && !assumesDeterministic) return "engine";
  if (!route.isGeneration) return undefined;
  return isGreedy(body, isOwnEngine) || (route.takesSeed && isSeeded(body)) ? undefined : "sampled";
}

/** Samplers of llama.cpp that draw even at temperature 0, unless they are 0. */
const DRAWING = ["xtc_probability", "dynatemp_range"];

/**
 * Without a temperature the model's own default holds, which is rarely greedy. A request for no tokens chooses none.
 */
function isGreedy(body: RequestBody, isOwnEngine: boolean): boolean {
  const { temperature, max_tokens: maxTokens } = body;
  if (maxTokens === 0) return true;
  if (DRAWING.some((name) => isSet(body[name]) && body[name] !== 0)) return false;
  return typeof temperature === "number" && (isOwnEngine ? temperature < GREEDY_BELOW : temperature === 0);
}

/** The client's own seed. Without one, the gateway draws a new one for our engine at each request. */
function isSeeded({ seed }: RequestBody): boolean {
  return typeof seed === "number" && Number.isSafeInteger(seed);
}

/**
 * Whether all tools are functions: a provider's own tools search the web or run code. Functions have no type in
 * Anthropic's form, or "custom".
 */
function areFunctions(tools: unknown): boolean {
  if (!Array.isArray(tools)) return true;
  return tools.every((tool) => {
    const { type } = (tool ?? {}) as { readonly type?: unknown };
    return type === undefined || type === null || type === "function" || type === "custom";
  });
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false && value !== "";
}
