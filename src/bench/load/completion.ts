/**
 * One request: reads the answer, a stream or vectors, and records the time of every arrival. Failures become records,
 * never exceptions.
 */
import type { Dispatcher } from "undici";
import type { Turn } from "../workload/session.js";
import type { Clock } from "./clock.js";
import type { LoopWatch } from "./loop-watch.js";
import { DETAIL_CHARS, type Failure, type RequestPlace, type RequestRecord } from "./record.js";
import { SseReader } from "./sse.js";
import { VectorsAnswer } from "./vectors-answer.js";

/** A server, and the headers of each request. */
export interface Connection {
  readonly pool: Dispatcher;
  /** The path of the server's URL, before the endpoint's path. */
  readonly basePath: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly now: Clock;
  readonly watch: LoopWatch;
}

interface Completed {
  readonly record: RequestRecord;
  readonly answer: string;
}

interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  readonly refusal?: string | null;
  readonly tool_calls?: readonly unknown[];
}

interface StreamEvent {
  readonly choices?: readonly {
    readonly text?: string | null;
    readonly delta?: Delta;
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
  readonly error?: { readonly message?: string } | string;
}

/** Follows one answer; `end` creates its record. */
class Answer {
  readonly #reader = new SseReader();
  readonly #chunkAtMs: number[] = [];
  #sentMs: number | undefined;
  #answerAtMs: number | undefined;
  #lastMs: number | undefined;
  #status = 200;
  #errorBody = "";
  #problem: string | undefined;
  #finishReason: string | undefined;
  #usage: NonNullable<StreamEvent["usage"]> | undefined;
  text = "";

  onSent(nowMs: number): void {
    this.#sentMs = nowMs;
  }

  onStatus(status: number): void {
    this.#status = status;
  }

  onData(nowMs: number, bytes: Buffer): void {
    if (this.#status !== 200) {
      this.#errorBody = (this.#errorBody + bytes.toString("utf8")).slice(0, DETAIL_CHARS);
      return;
    }
    for (const data of this.#reader.push(bytes)) {
      if (data !== "[DONE]") this.#onEvent(nowMs, data);
    }
  }

  #onEvent(nowMs: number, data: string): void {
    let event: StreamEvent;
    try {
      event = JSON.parse(data) as StreamEvent;
    } catch {
      this.#problem ??= `an event without valid JSON: ${data.slice(0, DETAIL_CHARS)}`;
      return;
    }
    if (event.error !== undefined) {
      this.#problem ??= typeof event.error === "string" ? event.error : (event.error.message ?? data);
    }
    if (event.usage !== undefined && event.usage !== null) this.#usage = event.usage;
    const choice = event.choices?.[0];
    if (choice === undefined) return;
    const { delta = {}, finish_reason: reason } = choice;
    const text = choice.text ?? delta.content ?? "";
    const isAnswer = text !== "" || Boolean(delta.refusal) || (delta.tool_calls?.length ?? 0) > 0;
    const isToken = isAnswer || Boolean(delta.reasoning_content) || Boolean(delta.reasoning);
    this.text += text;
    if (isAnswer) this.#answerAtMs ??= nowMs;
    if (isToken && this.#chunkAtMs.at(-1) !== nowMs) this.#chunkAtMs.push(nowMs);
    if (reason !== undefined && reason !== null) this.#finishReason = reason;
    if (isToken || this.#finishReason !== undefined) this.#lastMs = nowMs;
  }

  end(place: RequestPlace, turn: Turn, transport: Failure | undefined): RequestRecord {
    const { prompt_tokens = 0, completion_tokens = 0, prompt_tokens_details } = this.#usage ?? {};
    const sentMs = this.#sentMs ?? place.intendedMs;
    return {
      ...place,
      sentMs,
      chunkAtMs: this.#chunkAtMs,
      answerAtMs: this.#answerAtMs,
      lastMs: this.#lastMs ?? sentMs,
      numPromptTokens: prompt_tokens,
      numCachedTokens: prompt_tokens_details?.cached_tokens ?? 0,
      numOutputTokens: completion_tokens,
      finishReason: this.#finishReason,
      failure: transport ?? this.#failure(turn),
    };
  }

  #failure({ numTokensAsked }: Turn): Failure | undefined {
    if (this.#status !== 200) return { kind: "status", detail: `${this.#status}: ${this.#errorBody}` };
    if (this.#problem !== undefined) return { kind: "broken", detail: this.#problem };
    if (this.#finishReason === undefined) return { kind: "broken", detail: "the stream ended without a finish_reason" };
    const count = this.#usage?.completion_tokens;
    if (count === undefined) return { kind: "usage", detail: "the stream has no usage.completion_tokens" };
    if (numTokensAsked !== undefined && (count !== numTokensAsked || this.#finishReason !== "length")) {
      const got = `${count}, finish_reason ${this.#finishReason}`;
      return { kind: "length", detail: `expected ${numTokensAsked} tokens, got ${got}` };
    }
    return undefined;
  }
}

const TIMEOUTS = ["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "UND_ERR_CONNECT_TIMEOUT"];

function transportFailure(error: Error, wasSent: boolean): Failure {
  const { code = "" } = error as { readonly code?: string };
  const detail = `${code} ${error.message}`.trim();
  if (TIMEOUTS.includes(code)) return { kind: "timeout", detail };
  if (code === "UND_ERR_DESTROYED" || code === "UND_ERR_ABORTED") return { kind: "cancelled", detail };
  return { kind: wasSent ? "broken" : "connect", detail };
}

export function complete(connection: Connection, place: RequestPlace, turn: Turn): Promise<Completed> {
  const { pool, basePath, headers, now, watch } = connection;
  const answer = turn.numVectorsAsked === undefined ? new Answer() : new VectorsAnswer();
  return new Promise((resolve) => {
    let wasSent = false;
    const end = (failure?: Failure) => resolve({ record: answer.end(place, turn, failure), answer: answer.text });
    const own = { ...headers, ...turn.headers };
    const request = { path: basePath + turn.path, method: "POST" as const, headers: own, body: turn.body };
    pool.dispatch(request, {
      onRequestStart: () => {
        wasSent = true;
        answer.onSent(now());
      },
      onResponseStart: (_, status) => answer.onStatus(status),
      onResponseData: (_, bytes) => {
        const nowMs = now();
        watch.onChunk(nowMs);
        answer.onData(nowMs, bytes);
      },
      onResponseEnd: () => end(),
      onResponseError: (_, error) => end(transportFailure(error, wasSent)),
    });
  });
}
