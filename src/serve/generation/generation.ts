/**
 * Runs one engine request and turns its token ids into text: decoding, stop strings, positions of log-probabilities,
 * parts of the answer, and its end. Streamed and complete answers both use this class, so they cannot differ.
 */
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import type { Engine, EngineHandle } from "../../engine/api/engine.js";
import type { EngineOutput, TokenLogprob } from "../../engine/api/output.js";
import type { EngineRequest } from "../../engine/api/request.js";
import { type AnswerPart, appendPart } from "../../text/answer/answer-part.js";
import type { PartReader } from "../../text/answer/answer-reader.js";
import { StopStringMatcher } from "../../text/stop-strings.js";
import { StreamDecoder } from "../../text/stream-decoder.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { countCodePoints } from "./code-points.js";
import { SaidTokens, type ScoredToken } from "./said-tokens.js";

export type { ScoredToken };

/** How an answer is split into reasoning, content and calls. */
export interface AnswerReading {
  readonly openReader: () => PartReader;
  /** Special tokens whose text the reader uses. */
  readonly keptTokenIds: ReadonlySet<number>;
}

/** A request to the engine, and the rules that turn its tokens into text. */
export interface GenerationRequest {
  /** Submitted unchanged. */
  readonly engineRequest: EngineRequest;
  readonly stopStrings: readonly string[];
  /** Whether the output includes the stop string or the stop token's text, or ends before it. */
  readonly isStopIncluded: boolean;
  /** Whether the output includes special tokens' texts. */
  readonly keepSpecial: boolean;
  /** Updates contain the ids of their tokens. */
  readonly reportsTokenIds?: boolean;
  /** Absent: the answer is plain text and is not split. */
  readonly reading?: AnswerReading | undefined;
}

export interface GenerationEnd {
  readonly reason: "stop" | "length";
  /** The stop string or stop token that ended the output; null for the model's own stop tokens and for length. */
  readonly stopReason: string | number | null;
}

/** The results of one engine step for one generation. */
export interface GenerationUpdate {
  /** New text; may be empty while characters or a possible stop string are incomplete. */
  readonly text: string;
  /** The new text in parts; undefined for unsplit answers. */
  readonly parts: readonly AnswerPart[] | undefined;
  /**
   * One for each new token, including tokens of a removed stop string; empty unless the request asked for
   * log-probabilities.
   */
  readonly scored: readonly ScoredToken[];
  /**
   * The scored tokens whose texts form the content, including a token whose text is cut by a stop string. They come
   * with
   * the update that has their text.
   */
  readonly said: readonly ScoredToken[];
  readonly promptLogprobs: readonly (TokenLogprob | null)[] | undefined;
  readonly pooled: Float64Array | undefined;
  readonly numNewTokens: number;
  /** The ids of the new tokens; empty unless the request asked for them. */
  readonly tokenIds: readonly number[];
  readonly numCachedTokens: number;
  /** Tokens whose keys and values have been evicted so far. */
  readonly numEvictedTokens: number;
  /** Milliseconds between submission and admission by the engine. */
  readonly queueMs: number;
  readonly end: GenerationEnd | undefined;
}

export interface GenerationListener {
  onUpdate(update: GenerationUpdate): void;
  /** The last call: no updates follow. */
  onError(error: MillraceError): void;
}

const NO_IDS: readonly number[] = [];
const NO_SCORED: readonly ScoredToken[] = [];

export class Generation {
  readonly #request: GenerationRequest;
  readonly #modelStopIds: ReadonlySet<number>;
  readonly #listener: GenerationListener;
  readonly #decoder: StreamDecoder;
  readonly #matcher: StopStringMatcher | undefined;
  readonly #reader: PartReader | undefined;
  readonly #saidTokens: SaidTokens | undefined;
  #handle: EngineHandle | undefined;
  #isOver = false;
  #numTokens = 0;
  #numReasoningTokens = 0;
  /** Parts of the update under construction. */
  #parts: AnswerPart[] = [];
  #numDecodedCodePoints = 0;

  constructor(request: GenerationRequest, tokenizer: Tokenizer, listener: GenerationListener) {
    this.#request = request;
    this.#modelStopIds = tokenizer.stopIds;
    this.#listener = listener;
    this.#decoder = new StreamDecoder(tokenizer, {
      keepSpecial: request.keepSpecial,
      keptTokenIds: request.reading?.keptTokenIds,
      continuesText: true,
    });
    this.#reader = request.reading?.openReader();
    this.#saidTokens = request.engineRequest.sampling.numLogprobs === undefined ? undefined : new SaidTokens();
    this.#matcher =
      request.stopStrings.length === 0
        ? undefined
        : new StopStringMatcher(request.stopStrings, { includeStop: request.isStopIncluded });
  }

  /** Throws if the engine refuses the request at once. */
  start(engine: Engine): void {
    this.#handle = engine.submit(this.#request.engineRequest, {
      onOutput: (output) => this.#acceptSafely(output),
      onError: (error) => this.#fail(error),
    });
  }

  /** No updates or errors follow. */
  abort(): void {
    this.#isOver = true;
    this.#handle?.abort();
  }

  get numTokens(): number {
    return this.#numTokens;
  }

  /** Output tokens of reasoning; undefined for unsplit answers. */
  get numReasoningTokens(): number | undefined {
    return this.#reader === undefined ? undefined : this.#numReasoningTokens;
  }

  #fail(error: MillraceError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.onError(error);
  }

  /** A faulty output, such as a token without text, ends this request. An error thrown here would end the process. */
  #acceptSafely(output: EngineOutput): void {
    try {
      this.#accept(output);
    } catch (thrown) {
      this.abort();
      this.#listener.onError(toMillraceError(thrown));
    }
  }

  #accept(output: EngineOutput): void {
    if (this.#isOver) return;
    const numBefore = this.#numTokens;
    let text = "";
    let matched: string | undefined;
    let scored: ScoredToken[] | undefined;
    for (let i = 0; i < output.tokenIds.length && matched === undefined && !this.#isRead; i++) {
      const tokenId = output.tokenIds[i]!;
      this.#numTokens++;
      const logprob = output.logprobs?.[i];
      const token = logprob === undefined ? undefined : { logprob, textOffset: this.#numDecodedCodePoints };
      if (token !== undefined) {
        scored ??= [];
        scored.push(token);
      }
      const isFinalStop = output.stopTokenId !== undefined && i === output.tokenIds.length - 1;
      if (isFinalStop && !this.#request.isStopIncluded) continue;
      const decoded = this.#decode(this.#decoder.push(tokenId));
      if (token !== undefined && !this.#decoder.isLeftOut(tokenId)) this.#saidTokens?.push(token, decoded);
      const step = this.#match(decoded);
      text += step.text;
      matched = step.matched;
      this.#readToken(step.text);
    }
    let end: GenerationEnd | undefined;
    if (matched !== undefined || this.#isRead) {
      this.#handle?.abort();
      end = { reason: "stop", stopReason: matched ?? null };
    } else if (output.finishReason !== undefined) {
      const last = this.#finish();
      text += last.text;
      this.#addParts(last.text, this.#reader?.push(last.text));
      end = last.matched === undefined ? this.#naturalEnd(output) : { reason: "stop", stopReason: last.matched };
    }
    if (end !== undefined) {
      this.#isOver = true;
      if (this.#reader !== undefined) this.#addParts("", this.#reader.flush());
    }
    this.#listener.onUpdate({
      text,
      parts: this.#takeParts(),
      scored: scored ?? NO_SCORED,
      said: this.#saidTokens?.take() ?? NO_SCORED,
      promptLogprobs: output.promptLogprobs,
      pooled: output.pooled,
      numNewTokens: this.#numTokens - numBefore,
      tokenIds:
        this.#request.reportsTokenIds === true
          ? Array.from(output.tokenIds.slice(0, this.#numTokens - numBefore))
          : NO_IDS,
      numCachedTokens: output.numCachedTokens,
      numEvictedTokens: output.numEvictedTokens ?? 0,
      queueMs: output.queueMs,
      end,
    });
  }

  /** The reader needs no more tokens, for instance after the only call that the request allows. */
  get #isRead(): boolean {
    return this.#reader?.isComplete === true;
  }

  /** A token counts as reasoning if the text before or after it does, so markers count too. */
  #readToken(text: string): void {
    const isReasoning = () => this.#reader?.isReasoning === true;
    const wasReasoning = isReasoning();
    this.#addParts(text, this.#reader?.push(text));
    if (wasReasoning || isReasoning()) this.#numReasoningTokens++;
  }

  #addParts(text: string, parts: readonly AnswerPart[] | undefined): void {
    this.#saidTokens?.free(text, parts);
    for (const part of parts ?? []) appendPart(this.#parts, part);
  }

  #takeParts(): readonly AnswerPart[] | undefined {
    if (this.#reader === undefined) return undefined;
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  #decode(text: string): string {
    if (this.#request.engineRequest.sampling.numLogprobs !== undefined)
      this.#numDecodedCodePoints += countCodePoints(text);
    return text;
  }

  #match(text: string): { readonly text: string; readonly matched: string | undefined } {
    // The first min_tokens tokens cannot end the output, so their text is not searched (as in vLLM).
    if (this.#matcher === undefined || this.#numTokens <= this.#request.engineRequest.sampling.minTokens) {
      return { text, matched: undefined };
    }
    return text === "" ? { text, matched: undefined } : this.#matcher.push(text);
  }

  /** At the engine's end, incomplete characters become U+FFFD, and text held back for a stop string is released. */
  #finish(): { readonly text: string; readonly matched: string | undefined } {
    const rest = this.#decode(this.#decoder.flush());
    this.#saidTokens?.pushText(rest);
    const tail = this.#match(rest);
    if (tail.matched !== undefined || this.#matcher === undefined) return tail;
    return { text: tail.text + this.#matcher.flush(), matched: undefined };
  }

  #naturalEnd(output: EngineOutput): GenerationEnd {
    const isOwnStop = output.stopTokenId === undefined || this.#modelStopIds.has(output.stopTokenId);
    return { reason: output.finishReason ?? "stop", stopReason: isOwnStop ? null : output.stopTokenId! };
  }
}
