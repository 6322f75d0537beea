/**
 * Drives one engine request and turns its ids into text: decoding, stop strings, log-probabilities beside their text, the end. Streamed and whole answers
 * both come from here, so they cannot differ.
 */
import { type MillraceError, toMillraceError } from "../core/errors.js";
import type { Engine, EngineHandle, EngineOutput, SamplingParams, TokenLogprob } from "../engine/api.js";
import type { Pooling } from "../engine/pooling.js";
import { StopStringMatcher } from "../text/stop-strings.js";
import { StreamDecoder } from "../text/stream-decoder.js";
import type { Tokenizer } from "../text/tokenizer.js";
import { countCodePoints } from "./code-points.js";

export interface GenerationRequest {
  readonly promptIds: Int32Array;
  readonly sampling: SamplingParams;
  /** Asks for the prompt as one vector instead of an answer. */
  readonly pooling?: Pooling;
  readonly stopStrings: readonly string[];
  /** Whether the stop string, or the stop token's text, ends the output. */
  readonly isStopIncluded: boolean;
  /** Whether special tokens' texts are part of the output. */
  readonly keepSpecial: boolean;
  readonly cacheSalt: string | undefined;
}

/** One output token with its log-probability. */
export interface ScoredToken {
  readonly logprob: TokenLogprob;
  /** Where the token's text begins in the output, in code points. */
  readonly textOffset: number;
}

export interface GenerationEnd {
  readonly reason: "stop" | "length";
  /** The stop string or stop token that ended it; null for the model's own end and for length. */
  readonly stopReason: string | number | null;
}

/** One step's news of one generation. */
export interface GenerationUpdate {
  /** New text; may be empty while characters or a possible stop string are incomplete. */
  readonly text: string;
  /** One for each new token when log-probabilities were asked for, else empty. Tokens of a stop string that was cut off are among them. */
  readonly scored: readonly ScoredToken[];
  readonly promptLogprobs: readonly (TokenLogprob | null)[] | undefined;
  readonly pooled: Float64Array | undefined;
  readonly numNewTokens: number;
  readonly numCachedTokens: number;
  /** Milliseconds the request waited for the engine to take it in. */
  readonly queueMs: number;
  readonly end: GenerationEnd | undefined;
}

export interface GenerationListener {
  onUpdate(update: GenerationUpdate): void;
  /** Nothing follows. */
  onError(error: MillraceError): void;
}

const NO_SCORED: readonly ScoredToken[] = [];

export class Generation {
  readonly #request: GenerationRequest;
  readonly #modelStopIds: ReadonlySet<number>;
  readonly #listener: GenerationListener;
  readonly #decoder: StreamDecoder;
  readonly #matcher: StopStringMatcher | undefined;
  #handle: EngineHandle | undefined;
  #isOver = false;
  #numTokens = 0;
  #numDecodedCodePoints = 0;

  constructor(request: GenerationRequest, tokenizer: Tokenizer, listener: GenerationListener) {
    this.#request = request;
    this.#modelStopIds = tokenizer.stopIds;
    this.#listener = listener;
    this.#decoder = new StreamDecoder(tokenizer, { keepSpecial: request.keepSpecial, continuesText: true });
    this.#matcher =
      request.stopStrings.length === 0
        ? undefined
        : new StopStringMatcher(request.stopStrings, { includeStop: request.isStopIncluded });
  }

  /** Throws what the engine refuses at once. */
  start(engine: Engine): void {
    const { promptIds, sampling, cacheSalt, pooling } = this.#request;
    this.#handle = engine.submit(
      {
        promptIds,
        sampling,
        ...(cacheSalt === undefined ? {} : { cacheSalt }),
        ...(pooling === undefined ? {} : { pooling }),
      },
      { onOutput: (output) => this.#acceptSafely(output), onError: (error) => this.#fail(error) },
    );
  }

  /** Nothing is reported afterwards. */
  abort(): void {
    this.#isOver = true;
    this.#handle?.abort();
  }

  get numTokens(): number {
    return this.#numTokens;
  }

  #fail(error: MillraceError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.onError(error);
  }

  /** What goes wrong with an output (a token that has no text, say) ends this request; thrown further, it would end the process. */
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
    for (let i = 0; i < output.tokenIds.length && matched === undefined; i++) {
      const tokenId = output.tokenIds[i]!;
      this.#numTokens++;
      const logprob = output.logprobs?.[i];
      if (logprob !== undefined) {
        scored ??= [];
        scored.push({ logprob, textOffset: this.#numDecodedCodePoints });
      }
      const isFinalStop = output.stopTokenId !== undefined && i === output.tokenIds.length - 1;
      if (isFinalStop && !this.#request.isStopIncluded) continue;
      const step = this.#match(this.#decode(this.#decoder.push(tokenId)));
      text += step.text;
      matched = step.matched;
    }
    let end: GenerationEnd | undefined;
    if (matched !== undefined) {
      this.#handle?.abort();
      end = { reason: "stop", stopReason: matched };
    } else if (output.finishReason !== undefined) {
      const last = this.#finish();
      text += last.text;
      end = last.matched === undefined ? this.#naturalEnd(output) : { reason: "stop", stopReason: last.matched };
    }
    if (end !== undefined) this.#isOver = true;
    this.#listener.onUpdate({
      text,
      scored: scored ?? NO_SCORED,
      promptLogprobs: output.promptLogprobs,
      pooled: output.pooled,
      numNewTokens: this.#numTokens - numBefore,
      numCachedTokens: output.numCachedTokens,
      queueMs: output.queueMs,
      end,
    });
  }

  #decode(text: string): string {
    if (this.#request.sampling.numLogprobs !== undefined) this.#numDecodedCodePoints += countCodePoints(text);
    return text;
  }

  #match(text: string): { readonly text: string; readonly matched: string | undefined } {
    // The first min_tokens tokens cannot end the output, so their text is not searched (as vLLM has it).
    if (this.#matcher === undefined || this.#numTokens <= this.#request.sampling.minTokens) {
      return { text, matched: undefined };
    }
    return text === "" ? { text, matched: undefined } : this.#matcher.push(text);
  }

  /** The engine is done: half characters come out as U+FFFD and held-back text is released. */
  #finish(): { readonly text: string; readonly matched: string | undefined } {
    const tail = this.#match(this.#decode(this.#decoder.flush()));
    if (tail.matched !== undefined || this.#matcher === undefined) return tail;
    return { text: tail.text + this.#matcher.flush(), matched: undefined };
  }

  #naturalEnd(output: EngineOutput): GenerationEnd {
    const isOwnStop = output.stopTokenId === undefined || this.#modelStopIds.has(output.stopTokenId);
    return { reason: output.finishReason ?? "stop", stopReason: isOwnStop ? null : output.stopTokenId! };
  }
}
