/** The exact cache in a proxy, in front of one server that behaves as a test says. */
import {
  type CachedModel,
  type CacheResult,
  type CacheSettings,
  ExactCache,
} from "../../src/gateway/cache/exact-cache.js";
import { MemoryStore } from "../../src/gateway/cache/memory-store.js";
import type { Policy } from "../../src/gateway/pipeline.js";
import {
  answerJson,
  type Behaviour,
  beginStream,
  type FleetOptions,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "./stand-in.js";

export const CHAT = "/v1/chat/completions";
export const greedy = { model: "m", messages: [{ role: "user", content: "a" }], temperature: 0 };
export const CACHE_SETTINGS: CacheSettings = {
  ttlMs: 60_000,
  maxAnswerBytes: 100_000,
  keepsSampled: false,
  assumesDeterministic: true,
  pace: "none",
  sharedAs: undefined,
  headers: [],
};

let numIds = 0;
const newId = () => `chatcmpl-${String(numIds++).padStart(32, "0")}`;
export const CREATED = 1_700_000_000;

export function chat(text: string, fields: object = {}) {
  const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
  return { id: newId(), object: "chat.completion", created: CREATED, model: "m", choices, usage, ...fields };
}

export function chunks(text: string): readonly string[] {
  const head = { id: newId(), object: "chat.completion.chunk", created: CREATED, model: "m" };
  const deltas = [...text].map((content) => ({
    ...head,
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
  }));
  return [...deltas, { ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }, "[DONE]"].map(sse);
}

/** Answers with how many requests there have been. */
export function counting(): Behaviour {
  let numAnswers = 0;
  return ({ body }, outgoing) => {
    const text = `answer ${++numAnswers}`;
    if (body.stream !== true) return answerJson(chat(text))({} as never, outgoing);
    beginStream(outgoing);
    for (const event of chunks(text)) outgoing.write(event);
    outgoing.end();
  };
}

export interface CachedFleetOptions extends FleetOptions {
  readonly cache?: Partial<CacheSettings>;
  readonly model?: Partial<CachedModel>;
  readonly version?: () => string | undefined;
  readonly now?: () => number;
  readonly before?: readonly Policy[];
  readonly behind?: readonly Policy[];
}

export async function startCachedFleet(behaviour: Behaviour, options: CachedFleetOptions = {}) {
  const results: string[] = [];
  const model: CachedModel = {
    name: "m",
    isOwnEngine: false,
    get version() {
      return options.version === undefined ? "v" : options.version();
    },
    settings: { ...CACHE_SETTINGS, ...options.cache },
    ...options.model,
  };
  const store = new MemoryStore(1 << 24, options.now);
  const cache = new ExactCache({
    store,
    modelOf: (name) => (name === "m" ? model : undefined),
    hasOwnKeys: () => true,
    onResult: (_, result: CacheResult, saved) =>
      results.push(saved === undefined ? result : `${result} ${saved.fresh}+${saved.output}`),
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  const fleet = await startFleet([behaviour], {
    ...options,
    proxy: {
      policies: [...(options.before ?? []), cache, ...(options.behind ?? [])],
      authorize: ({ authorization = "" }) => ({ tenant: authorization }),
      ...options.proxy,
    },
  });
  const { post, standIns } = fleet;
  const ask = async (body: object = greedy, headers: Record<string, string> = {}, path = CHAT) => {
    const response = await post(path, body, { headers });
    const text = await response.text();
    return {
      status: response.status,
      text,
      cache: response.headers.get("x-millrace-cache"),
      headers: response.headers,
    };
  };
  return {
    fleet,
    ask,
    post,
    results,
    cache,
    store,
    numAsked: () => standIns[0]!.received.length,
    standIn: standIns[0]!,
  };
}

export const contentOf = (text: string): string => {
  const bodies = text.startsWith("data:")
    ? [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json!))
    : [JSON.parse(text)];
  return bodies.map(({ choices: [{ message, delta }] }) => (message ?? delta).content ?? "").join("");
};

/** Waits until so many requests have been read, and have come to the policies. */
export async function arrived(fleet: TestFleet, n: number): Promise<void> {
  await until(() => fleet.watched.numStarted === n);
  await new Promise((resolve) => setImmediate(resolve));
}
