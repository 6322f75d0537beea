/**
 * Probes a server with a few small requests: its endpoints, its kinds of prompts (ids or text), the length of its
 * tokens, and its fields.
 */
import { Pool } from "undici";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { complete } from "../load/completion.js";
import { LoopWatch } from "../load/loop-watch.js";
import type { RequestRecord } from "../load/record.js";
import { prose } from "../workload/prose.js";
import { Random } from "../workload/random.js";
import type { ProbedServer } from "../workload/traffic.js";

export interface ServerAddress {
  /** Without an endpoint's path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The model's name in requests; undefined: the first in the server's list. */
  readonly model?: string | undefined;
  readonly timeoutMs: number;
}

/** Enough words to contain most of the benchmark's vocabulary. */
const VOCABULARY_WORDS = 3000;
/** Two prompt sizes; their difference gives the tokens per word. */
const FEW_WORDS = 32;
const MANY_WORDS = 224;
const PROBE_IDS = 64;
const PROBE_TOKENS = 4;
/** Far more tokens than the question's answer needs. */
const PROBE_EOS_TOKENS = 64;
const ONE_WORD_QUESTION = "What is the capital of France? Answer with one word.";
/** Timeout of requests without computation. */
const LOOK_UP_MS = 10_000;

/** Throws peer_failed when no usable server answers. @param signal aborted: stops waiting */
export async function probeServer(address: ServerAddress, signal?: AbortSignal): Promise<ProbedServer> {
  const prober = new Prober(address);
  const onAbort = () => void prober.close();
  signal?.addEventListener("abort", onAbort);
  try {
    signal?.throwIfAborted();
    return await prober.probe();
  } finally {
    signal?.removeEventListener("abort", onAbort);
    await prober.close();
  }
}

interface Model {
  readonly id: string;
  readonly max_model_len?: number;
}

interface ModelList {
  readonly models: readonly Model[];
  /** HTTP status; a server that needs a key answers 401. */
  readonly status: number;
}

/** @returns undefined when nothing answers there */
export async function listModels({ url, headers }: ServerAddress): Promise<ModelList | undefined> {
  try {
    const response = await fetch(`${url}/v1/models`, { headers, signal: AbortSignal.timeout(LOOK_UP_MS) });
    const { status } = response;
    if (!response.ok) return { models: [], status };
    return { models: ((await response.json()) as { readonly data?: readonly Model[] }).data ?? [], status };
  } catch {
    return undefined;
  }
}

/** The model to measure, and its context where the server tells it. Throws peer_failed. */
export async function chosenModel(
  address: ServerAddress,
): Promise<{ readonly model: string; readonly maxModelLen: number | undefined }> {
  const listed = await listModels(address);
  if (listed === undefined) throw unusable(address, "no answer from /v1/models");
  const { models, status } = listed;
  if (status === 401 || status === 403) {
    const key = "authorization" in address.headers ? "for the key that was sent" : "without a key";
    const hint = "give the server's key with --api-key, or in OPENAI_API_KEY";
    throw unusable(address, `${status} from /v1/models ${key}`, hint);
  }
  const model = address.model ?? models[0]?.id;
  if (model === undefined) {
    throw unusable(address, "no model in /v1/models", "give the model's name with --model");
  }
  return { model, maxModelLen: models.find((each) => each.id === model)?.max_model_len };
}

export const unusable = (
  { url }: ServerAddress,
  got: string,
  hint = "start an OpenAI-compatible server there; give its key with --api-key or OPENAI_API_KEY",
): MillraceError => new MillraceError("peer_failed", `expected a server to measure at ${url}, got ${got}`, { hint });

const tokenized = z.object({ tokens: z.array(z.int().min(0)) });

const jsonOf = async (response: Response): Promise<unknown> =>
  response.ok ? response.json().catch(() => undefined) : undefined;

class Prober {
  readonly #pool: Pool;
  readonly #basePath: string;
  #lastFailure = "";

  constructor(private readonly address: ServerAddress) {
    const { url, timeoutMs } = address;
    this.#pool = new Pool(new URL(url).origin, { headersTimeout: timeoutMs, bodyTimeout: timeoutMs });
    this.#basePath = new URL(url).pathname.replace(/\/$/, "");
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async probe(): Promise<ProbedServer> {
    const { model, maxModelLen } = await chosenModel(this.address);
    const text = prose(new Random(0), VOCABULARY_WORDS);
    const tokens = await this.#tokenize(model, text);
    const completions = await this.#completions(model, [...new Set(tokens)]);
    const chat = await this.#chat(model);
    if (completions === undefined && chat === undefined) throw unusable(this.address, this.#lastFailure);
    const tokensPerWord = tokens.length / VOCABULARY_WORDS || (completions?.tokensPerWord ?? chat!.tokensPerWord);
    if (!(tokensPerWord > 0)) throw unusable(this.address, "answers without usage.prompt_tokens");
    return {
      model,
      hasCompletions: completions !== undefined,
      hasChat: chat !== undefined,
      tokensPerWord,
      tokenIds: completions?.tokenIds ?? [],
      ignoresEos: await this.#ignoresEos(model, chat !== undefined),
      hasJsonMode: chat?.hasJsonMode ?? false,
      promptOverhead: completions?.overhead ?? 0,
      chatOverhead: chat === undefined ? 0 : Math.round(chat.fewTokens - FEW_WORDS * tokensPerWord),
      maxModelLen,
    };
  }

  /** Tokens by vLLM's or llama.cpp's endpoint; empty for a server with neither. */
  async #tokenize(model: string, text: string): Promise<readonly number[]> {
    for (const body of [{ model, prompt: text, add_special_tokens: false }, { content: text }]) {
      const request = {
        method: "POST",
        headers: { ...this.address.headers, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(LOOK_UP_MS),
      };
      const { data } = tokenized.safeParse(await fetch(`${this.address.url}/tokenize`, request).then(jsonOf, () => {}));
      if (data !== undefined && data.tokens.length > 0) return data.tokens;
    }
    return [];
  }

  /** Undefined when the request failed. */
  async #ask(path: string, fields: object, maxTokens = PROBE_TOKENS): Promise<RequestRecord | undefined> {
    const now = () => performance.now();
    const connection = {
      pool: this.#pool,
      basePath: this.#basePath,
      headers: this.address.headers,
      now,
      watch: new LoopWatch(now),
    };
    const body = { max_tokens: maxTokens, temperature: 0, stream: true, stream_options: { include_usage: true } };
    const turn = { path, body: JSON.stringify({ ...fields, ...body }), numTokensAsked: undefined };
    const { record } = await complete(connection, { session: 0, turn: 0, intendedMs: now() }, turn);
    if (record.failure === undefined) return record;
    this.#lastFailure = `${path}: ${record.failure.detail}`;
    return undefined;
  }

  /**
   * Whether a one-word answer continues to its limit with ignore_eos. An answer that also does so without the field
   * proves nothing: the field then counts as supported, because lengths are checked, and answers that end early would
   * be failed requests rather than wrong figures.
   */
  async #ignoresEos(model: string, hasChat: boolean): Promise<boolean> {
    const [path, asked] = hasChat
      ? ["/v1/chat/completions", { messages: [{ role: "user", content: ONE_WORD_QUESTION }] }]
      : ["/v1/completions", { prompt: `Question: ${ONE_WORD_QUESTION}\nAnswer:` }];
    const answer = await this.#ask(path, { model, ...asked, ignore_eos: true }, PROBE_EOS_TOKENS);
    return answer?.numOutputTokens === PROBE_EOS_TOKENS && answer.finishReason === "length";
  }

  async #completions(model: string, tokenIds: readonly number[]) {
    const path = "/v1/completions";
    if (tokenIds.length > 0) {
      const random = new Random(1);
      const prompt = Array.from({ length: PROBE_IDS }, () => random.pick(tokenIds));
      const answer = await this.#ask(path, { model, prompt });
      if (answer !== undefined) {
        const overhead = answer.numPromptTokens - PROBE_IDS;
        return { tokenIds, overhead, tokensPerWord: 1 };
      }
    }
    const few = await this.#ask(path, { model, prompt: prose(new Random(1), FEW_WORDS) });
    const many = few && (await this.#ask(path, { model, prompt: prose(new Random(2), MANY_WORDS) }));
    if (few === undefined || many === undefined) return undefined;
    const tokensPerWord = wordLength(few, many);
    const overhead = Math.round(few.numPromptTokens - FEW_WORDS * tokensPerWord);
    return { tokenIds: [], overhead, tokensPerWord };
  }

  async #chat(model: string) {
    const path = "/v1/chat/completions";
    const fields = (numWords: number) => ({
      model,
      messages: [{ role: "user", content: prose(new Random(numWords), numWords) }],
    });
    const few = await this.#ask(path, fields(FEW_WORDS));
    const many = few && (await this.#ask(path, fields(MANY_WORDS)));
    if (few === undefined || many === undefined) return undefined;
    const json = await this.#ask(path, { ...fields(FEW_WORDS), response_format: { type: "json_object" } });
    return {
      fewTokens: few.numPromptTokens,
      tokensPerWord: wordLength(few, many),
      hasJsonMode: json !== undefined,
    };
  }
}

function wordLength(few: RequestRecord, many: RequestRecord): number {
  return (many.numPromptTokens - few.numPromptTokens) / (MANY_WORDS - FEW_WORDS);
}
