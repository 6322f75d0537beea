/** One sequence: a pure function of (request, seed, output so far), plus the KV it holds at the moment. */

import type { TokenLogprob } from "../api/output.js";
import type { EngineRequest, SamplingParams } from "../api/request.js";
import type { KvSequence } from "../memory/kv-sequence.js";
import type { PrefixNode } from "../memory/prefix-index.js";
import { Pooler } from "./pooling.js";

export class Sequence implements KvSequence {
  readonly sampling: SamplingParams;
  readonly cacheSalt: string;
  /** Lower ones go first under the policy `priority`. */
  readonly priority: number;
  /** Whose request it is, for the policy `fair`. */
  readonly tenant: string;
  readonly numPromptTokens: number;
  /** Prompt and output up to numTokens; then the draft. */
  tokens: Int32Array;
  numTokens: number;
  /** Guesses at what comes next, to be checked in the coming step. */
  numDraftTokens = 0;
  /** Tokens whose K and V are stored; chases numTokens. */
  numComputedTokens = 0;
  /** Prompt tokens found in the prefix cache at first admission. */
  numCachedTokens = 0;
  numAdmissions = 0;
  /** Of its positions, those a policy was told of: computed again after a preemption, they are no more work of its tenant's. */
  numChargedTokens = 0;
  /** From arrival to first admission; undefined before that. */
  queueMs: number | undefined;
  /** Row in the batch's block tables while admitted, else −1. */
  seat = -1;
  /** Entries of the block tables that the seat's row already has. */
  numTableEntriesWritten = 0;
  /** Per KV group: block ids, append-only while admitted; −1 where the block was given back as no query to come sees it. */
  readonly blockTables: number[][];
  /** Per KV group: how many entries those are, all at the start. */
  readonly numGivenBack: number[];
  readonly pooler: Pooler | undefined;
  /** Published (or shared) prefix nodes of the first blocks. */
  readonly nodes: PrefixNode[] = [];
  /** Chained keys of the prompt's full blocks. */
  readonly promptKeys: number[] = [];
  isPublishing = true;
  /** Filled position by position when asked for; entry 0 is null. */
  readonly promptLogprobs: (TokenLogprob | null)[] | undefined;
  constructor(
    readonly id: number,
    request: EngineRequest,
    numGroups: number,
    readonly arrivedAtMs: number,
  ) {
    this.sampling = request.sampling;
    this.cacheSalt = request.cacheSalt ?? "";
    this.priority = request.priority ?? 0;
    this.tenant = request.tenant ?? "";
    this.tokens = request.promptIds;
    this.numPromptTokens = request.promptIds.length;
    this.numTokens = this.numPromptTokens;
    this.pooler = request.pooling === undefined ? undefined : new Pooler(request.pooling, this.numPromptTokens);
    this.blockTables = Array.from({ length: numGroups }, () => []);
    this.numGivenBack = new Array<number>(numGroups).fill(0);
    this.promptLogprobs = request.sampling.numPromptLogprobs === undefined ? undefined : [null];
  }

  get numOutputTokens(): number {
    return this.numTokens - this.numPromptTokens;
  }

  /** Output tokens that may still come. */
  get numTokensLeft(): number {
    return this.sampling.maxTokens - this.numOutputTokens;
  }

  get needsEveryPosition(): boolean {
    return this.sampling.numPromptLogprobs !== undefined || this.pooler?.needsAll === true;
  }

  append(token: number): void {
    this.#reserve(this.numTokens + 1);
    this.tokens[this.numTokens++] = token;
  }

  setDraft(tokens: readonly number[]): void {
    this.#reserve(this.numTokens + tokens.length);
    this.tokens.set(tokens, this.numTokens);
    this.numDraftTokens = tokens.length;
  }

  #reserve(length: number): void {
    if (length <= this.tokens.length) return;
    const grown = new Int32Array(Math.max(length + 64, Math.ceil(this.numTokens * 1.5)));
    grown.set(this.tokens);
    this.tokens = grown;
  }
}

/** `numNewTokens` of `sequence`, from its numComputedTokens on, are computed in this step, and after the last of them its draft. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  readonly numNewTokens: number;
}
