/** Which requests go to instances, and what is known of them by their path. */
import { API_DESCRIPTION_PATH } from "./api-descriptions.js";
import { ANTHROPIC, OPENAI, OPENAI_RESPONSES, type ProxyDialect } from "./dialect.js";

export interface Route {
  readonly dialect: ProxyDialect;
  /** POST where absent. A GET has no body: its query may name the model. */
  readonly method?: "GET";
  /** Needs no key, so that it may cost nothing: the gateway answers by itself. */
  readonly isOpen?: boolean;
  /** Tokens come out. */
  readonly isGeneration: boolean;
  /** Its prompt goes through the model, and so through a prefix cache where there is one; of paths that we do not know, this is assumed. */
  readonly runsPrompt: boolean;
  /** Takes a `seed`. */
  readonly takesSeed: boolean;
  /** Goes on from stored answers; `isGeneration` too: its answer may be stored. */
  readonly hasState?: boolean;
  /** Sent to two instances it leaves nothing behind on either. Of paths we do not know, nobody can tell. */
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

const ROUTES: ReadonlyMap<string, Route> = new Map([
  ["/v1/chat/completions", { ...generation, dialect: OPENAI, takesSeed: true }],
  ["/v1/completions", { ...generation, dialect: OPENAI, takesSeed: true }],
  // Some engines keep responses under their ids.
  ["/v1/responses", { ...generation, dialect: OPENAI_RESPONSES, hasState: true, isHarmlessTwice: false }],
  ["/v1/responses/input_tokens", { ...PLAIN, hasState: true }],
  ["/v1/messages", { ...generation, dialect: ANTHROPIC }],
  ["/v1/messages/count_tokens", { ...PLAIN, dialect: ANTHROPIC }],
  ["/v1/embeddings", { ...PLAIN, runsPrompt: true, isHarmlessTwice: true }],
  ["/tokenize", PLAIN],
  ["/detokenize", PLAIN],
  ["/tokenizer_info", { ...PLAIN, method: "GET" }],
  [API_DESCRIPTION_PATH, { ...PLAIN, method: "GET", isOpen: true }],
]);

/** Every path that we know. */
export const KNOWN_PATHS: readonly string[] = [...ROUTES.keys()];

/** Those that run prompts through a model. */
export const PROMPT_PATHS: readonly string[] = KNOWN_PATHS.filter((path) => ROUTES.get(path)?.runsPrompt === true);

/** Plain words only: nothing that an engine could resolve to another path. */
const API_PATH = /^\/v1(?:\/[\w-]+)+$/;
/** Of vLLM: they make it read files of its machine, which is not for clients to ask. */
const ADMINISTRATION: readonly string[] = ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"];

/** Whatever else an engine has under /v1 is passed on as well. */
export function routeOf(path: string): Route | undefined {
  const known = ROUTES.get(path);
  if (known !== undefined || !API_PATH.test(path) || ADMINISTRATION.includes(path)) return known;
  return { ...PLAIN, runsPrompt: true, dialect: dialectOf(path) };
}

/** Whether a path is one that we know, word for word: others hold what clients write. */
export function isOwnPath(path: string): boolean {
  return ROUTES.has(path);
}

/** Whose words a path's answers are in, errors among them. */
export function dialectOf(path: string): ProxyDialect {
  return path.startsWith("/v1/messages/") ? ANTHROPIC : OPENAI;
}
