/** The paths that go to instances, and the properties of each. */

import { ANTHROPIC, OPENAI, OPENAI_RESPONSES, type ProxyDialect } from "./dialect.js";

/** The description of an engine's API. */
export const API_DESCRIPTION_PATH = "/openapi.json";

export interface Route {
  readonly dialect: ProxyDialect;
  /** POST if absent. The query of a GET may name the model, since it has no body. */
  readonly method?: "GET";
  /** The path needs no key, so the gateway answers it itself at little cost. */
  readonly isOpen?: boolean;
  /** The answer contains generated tokens. */
  readonly isGeneration: boolean;
  /** The model computes the prompt, and may cache its prefix. Assumed for unknown paths. */
  readonly runsPrompt: boolean;
  /** Requests may have a `seed`. */
  readonly takesSeed: boolean;
  /** Requests may continue stored answers. If `isGeneration` is set too, their answers may be stored. */
  readonly hasState?: boolean;
  /** The field of the body that may hold long lists of token ids; absent: none may. */
  readonly idField?: string;
  /** A request may run on two instances at once, since it leaves no state behind. False for unknown paths. */
  readonly isHarmlessTwice: boolean;
}

const generation = { isGeneration: true, runsPrompt: true, takesSeed: false, isHarmlessTwice: true } as const;
const PLAIN: Route = {
  dialect: OPENAI,
  isGeneration: false,
  runsPrompt: false,
  takesSeed: false,
  isHarmlessTwice: false,
};

/** Paths whose answers are only vectors or scores, beside /v1/embeddings. */
export const POOLING_PATHS = ["/v2/embed", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score"] as const;

const ROUTES: ReadonlyMap<string, Route> = new Map([
  ["/v1/chat/completions", { ...generation, dialect: OPENAI, takesSeed: true }],
  ["/v1/chat/completions/input_tokens", PLAIN],
  ["/v1/completions", { ...generation, dialect: OPENAI, takesSeed: true, idField: "prompt" }],
  // Some engines store responses by their ids.
  ["/v1/responses", { ...generation, dialect: OPENAI_RESPONSES, hasState: true, isHarmlessTwice: false }],
  ["/v1/responses/input_tokens", { ...PLAIN, hasState: true }],
  ["/v1/messages", { ...generation, dialect: ANTHROPIC }],
  ["/v1/messages/count_tokens", { ...PLAIN, dialect: ANTHROPIC }],
  ["/v1/embeddings", { ...PLAIN, runsPrompt: true, isHarmlessTwice: true, idField: "input" }],
  ...POOLING_PATHS.map((path): [string, Route] => [path, { ...PLAIN, runsPrompt: true, isHarmlessTwice: true }]),
  ["/tokenize", PLAIN],
  ["/detokenize", { ...PLAIN, idField: "tokens" }],
  ["/tokenizer_info", { ...PLAIN, method: "GET" }],
  [API_DESCRIPTION_PATH, { ...PLAIN, method: "GET", isOpen: true }],
]);

/** All known paths. */
export const KNOWN_PATHS: readonly string[] = [...ROUTES.keys()];

/** The known paths that run prompts through a model. */
export const PROMPT_PATHS: readonly string[] = KNOWN_PATHS.filter((path) => ROUTES.get(path)?.runsPrompt === true);

/** Plain words only, so that no engine can resolve the path to another one. */
const API_PATH = /^\/v1(?:\/[\w-]+)+$/;
/** Paths of vLLM that make it read files on its machine, which clients must not do. */
const ADMINISTRATION: readonly string[] = ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"];

/**
 * The route of a path. Unknown paths under /v1 go to the engine too.
 * @returns undefined for paths that do not go to instances
 */
export function routeOf(path: string): Route | undefined {
  const known = ROUTES.get(path);
  if (known !== undefined || !API_PATH.test(path) || ADMINISTRATION.includes(path)) return known;
  return { ...PLAIN, runsPrompt: true, dialect: dialectOf(path) };
}

/** Whether a path is known. Only known paths may be logged: others contain text of clients. */
export function isOwnPath(path: string): boolean {
  return ROUTES.has(path);
}

/**
 * The format of answers and errors on a path that is no route of one vendor.
 * @param version the request's anthropic-version, which Anthropic's clients send
 */
export function dialectOf(path: string, version?: string | readonly string[]): ProxyDialect {
  return path.startsWith("/v1/messages/") || version !== undefined ? ANTHROPIC : OPENAI;
}
