/**
 * An engine without a model: every step gives each live request its next scripted id. Deterministic, and it counts what
 * is alive.
 */

import { MillraceError } from "../../src/core/errors.js";
import { checkRequest } from "../../src/engine/admission.js";
import type { Closed, Engine, EngineHandle, EngineListener } from "../../src/engine/api/engine.js";
import type { FinishReason, TokenLogprob } from "../../src/engine/api/output.js";
import type { EngineRequest } from "../../src/engine/api/request.js";
import type { EngineInfo, EngineStats } from "../../src/engine/api/stats.js";
import { NO_CONSTRAINTS, NO_DISK_TIER, NO_SPECULATION_STATS } from "../../src/engine/api/stats.js";
import { grammarOfRecipe } from "../../src/text/answer/answer-recipe.js";
import { type BlockChanges, CachedBlocks } from "../../src/text/cached-blocks.js";
import { FAKE_VOCAB_SIZE } from "./fake-tokenizer.js";

export interface FakeEngineOptions {
  /** The ids a request would generate if nothing stopped it; default: its prompt's text bytes over and over. */
  readonly script?: (request: EngineRequest) => readonly number[];
  /** Steps by itself once per turn of the event loop; false: only step() steps. */
  readonly stepsByItself?: boolean;
  /** Tokens of a request per step, as speculation gives; default 1. */
  readonly tokensPerStep?: number;
  readonly maxModelLen?: number;
  readonly maxWaitingRequests?: number;
  /** Prompt tokens said to come from the prefix cache. */
  readonly numCachedTokens?: number;
  /** Facts that differ. */
  readonly info?: Partial<EngineInfo>;
}

const FAKE_EMBEDDING_WIDTH = 8;

/** Any fixed function of the prompt will do. */
export function fakePooled(promptIds: ArrayLike<number>, width = FAKE_EMBEDDING_WIDTH): Float64Array {
  return Float64Array.from({ length: width }, (_, i) => promptIds[i % promptIds.length]! / 7 - 9 - i);
}

interface Live {
  readonly request: EngineRequest;
  readonly listener: EngineListener;
  readonly script: readonly number[];
  numTokens: number;
}

function echoScript(request: EngineRequest): readonly number[] {
  const bytes = Array.from(request.promptIds).filter((id) => id < 256);
  return bytes.length === 0 ? [63] : bytes;
}

/** Any fixed function of place and token will do. */
function fakeLogprob(tokenId: number, position: number, numTop: number): TokenLogprob {
  const top = Array.from({ length: numTop }, (_, i) => ({
    tokenId: (tokenId + i) % FAKE_VOCAB_SIZE,
    logprob: -0.25 - i - (position % 4) / 8,
  }));
  return { tokenId, logprob: -0.25 - (position % 4) / 8, rank: 1, top };
}

export class FakeEngine implements Engine {
  readonly info: EngineInfo;
  readonly failure: Promise<never>;
  readonly cachedBlocks = new CachedBlocks([0], 16);
  /** Everything ever submitted. */
  readonly submitted: EngineRequest[] = [];
  readonly #options: FakeEngineOptions;
  readonly #live = new Set<Live>();
  readonly #cacheListeners = new Set<(changes: BlockChanges) => void>();
  #rejectFailure: (error: Error) => void = () => {};
  #numSteps = 0;
  #numAborted = 0;
  #numPromptTokens = 0;
  #numGenerationTokens = 0;
  #isStepScheduled = false;

  constructor(options: FakeEngineOptions = {}) {
    this.#options = options;
    this.failure = new Promise<never>((_, reject) => {
      this.#rejectFailure = reject;
    });
    this.failure.catch(() => {});
    this.info = {
      architecture: "llama",
      weightType: "F32",
      numParameters: 1000,
      weightBytes: 4000,
      vocabSize: FAKE_VOCAB_SIZE,
      maxModelLen: options.maxModelLen ?? 4096,
      tasks: ["generate", "embed"],
      isCausal: true,
      numTokenTypes: 0,
      embeddingWidth: FAKE_EMBEDDING_WIDTH,
      pooling: "mean",
      blockSize: 16,
      kvWindows: [0],
      maxNumSeqs: 64,
      numKvBlocks: 256,
      kvBytes: 1 << 20,
      recurrentBytes: 0,
      kvCacheDtype: "f16",
      kvEviction: undefined,
      numThreads: 1,
      isa: "portable",
      ...options.info,
    };
  }

  get numLive(): number {
    return this.#live.size;
  }

  get numAborted(): number {
    return this.#numAborted;
  }

  submit(request: EngineRequest, listener: EngineListener): EngineHandle {
    checkRequest(request, this.info);
    // A real engine's grammar thread does this.
    if (request.constraint !== undefined) grammarOfRecipe(request.constraint.recipe);
    const { maxWaitingRequests } = this.#options;
    if (maxWaitingRequests !== undefined && this.#live.size >= maxWaitingRequests) {
      const details = { retryAfterSeconds: 2, hint: "try again later" };
      throw new MillraceError("queue_full", `expected a free seat, got ${this.#live.size} requests`, details);
    }
    const script = (this.#options.script ?? echoScript)(request);
    const live: Live = { request, listener, script, numTokens: 0 };
    this.submitted.push(request);
    this.#live.add(live);
    this.#numPromptTokens += request.promptIds.length;
    this.#schedule();
    return {
      abort: () => {
        if (this.#live.delete(live)) this.#numAborted++;
      },
    };
  }

  /** One token for every live request. */
  step(): void {
    this.#numSteps++;
    for (const live of [...this.#live]) if (this.#live.has(live)) this.#advance(live);
  }

  /** Ends every request with this error, and the engine with it. */
  fail(error: MillraceError): void {
    const all = [...this.#live];
    this.#live.clear();
    for (const { listener } of all) listener.onError(error);
    this.#rejectFailure(error);
  }

  stats(): EngineStats {
    return {
      numRunning: this.#live.size,
      numWaiting: 0,
      numUsedKvBlocks: this.#live.size,
      numEvictedTokens: 0,
      prefixCacheQueriedTokens: this.#numPromptTokens,
      prefixCacheHitTokens: 0,
      numPreemptions: 0,
      numPromptTokens: this.#numPromptTokens,
      numGenerationTokens: this.#numGenerationTokens,
      numSteps: this.#numSteps,
      speculation: NO_SPECULATION_STATS,
      constraints: NO_CONSTRAINTS,
      prefixCacheDisk: NO_DISK_TIER,
      kvBytesRead: 0,
      kvBytesUnshared: 0,
      kernelMs: this.#numSteps,
      promptMs: 0,
      stepMs: this.#numSteps * 2,
    };
  }

  /** What it says of itself. */
  stalled = 0;
  stalledMs(): number {
    return this.stalled;
  }

  onCacheChanges(listener: (changes: BlockChanges) => void): () => void {
    this.#cacheListeners.add(listener);
    return () => this.#cacheListeners.delete(listener);
  }

  /** As if a step had got or lost these blocks. */
  changeCache(changes: BlockChanges): void {
    this.cachedBlocks.apply(changes);
    for (const listener of this.#cacheListeners) listener(changes);
  }

  async drain(): Promise<void> {}

  async close(): Promise<Closed> {
    this.fail(new MillraceError("shutting_down", "expected an open engine, got a closed one"));
    return "ended";
  }

  #schedule(): void {
    if (this.#options.stepsByItself === false || this.#isStepScheduled) return;
    this.#isStepScheduled = true;
    setImmediate(() => {
      this.#isStepScheduled = false;
      this.step();
      if (this.#live.size > 0) this.#schedule();
    });
  }

  #advance(live: Live): void {
    const { request, listener } = live;
    const { sampling, promptIds } = request;
    const isFirst = live.numTokens === 0;
    const numTop = sampling.numPromptLogprobs;
    const promptLogprobs =
      isFirst && numTop !== undefined
        ? Array.from(promptIds, (id, i) => (i === 0 ? null : fakeLogprob(id, i, numTop)))
        : undefined;
    const prompt = promptLogprobs === undefined ? {} : { promptLogprobs };
    const { numCachedTokens = 0 } = this.#options;
    if (sampling.maxTokens === 0) {
      this.#live.delete(live);
      const pooled = request.pooling === undefined ? {} : { pooled: fakePooled(promptIds, this.info.embeddingWidth) };
      listener.onOutput({ tokenIds: [], numCachedTokens, queueMs: 0, finishReason: "length", ...prompt, ...pooled });
      return;
    }
    const tokenIds: number[] = [];
    const logprobs: TokenLogprob[] = [];
    let end: { readonly finishReason: FinishReason; readonly stopTokenId?: number } | undefined;
    const { tokensPerStep = 1 } = this.#options;
    while (tokenIds.length < tokensPerStep && end === undefined) {
      const tokenId = live.script[live.numTokens % live.script.length]!;
      live.numTokens++;
      this.#numGenerationTokens++;
      tokenIds.push(tokenId);
      const { numLogprobs } = sampling;
      if (numLogprobs !== undefined) logprobs.push(fakeLogprob(tokenId, live.numTokens, numLogprobs));
      const isStop = sampling.stopTokenIds.includes(tokenId) && live.numTokens > sampling.minTokens;
      const isFull = live.numTokens >= sampling.maxTokens || promptIds.length + live.numTokens >= this.info.maxModelLen;
      if (isStop) end = { finishReason: "stop", stopTokenId: tokenId };
      else if (isFull) end = { finishReason: "length" };
    }
    if (end !== undefined) this.#live.delete(live);
    const scores = sampling.numLogprobs === undefined ? {} : { logprobs };
    listener.onOutput({ tokenIds, numCachedTokens, queueMs: 0, ...prompt, ...scores, ...end });
  }
}
