/** One sequence: a pure function of (request, seed, output so far), and the KV blocks that it holds at present. */

import type { TokenLogprob } from "../api/output.js";
import type { EngineRequest, SamplingParams } from "../api/request.js";
import type { KvSequence } from "../memory/kv-sequence.js";
import type { PrefixNode } from "../memory/prefix-index.js";
import { Pooler } from "./pooling.js";

export class Sequence implements KvSequence {
  readonly sampling: SamplingParams;
  readonly cacheSalt: string;
  /** Policy `priority`: lower numbers go first. */
  readonly priority: number;
  /** Tenant, for the policy `fair`. */
  readonly tenant: string;
  /** Computed in steps that have nothing else to compute. */
  readonly isBackground: boolean;
  readonly numPromptTokens: number;
  /** Prompt and output up to numTokens, then the draft. */
  tokens: Int32Array;
  numTokens: number;
  /** Drafted tokens that the coming step verifies. */
  numDraftTokens = 0;
  /** Other tokens that the step verifies in place of the first drafted one. */
  alternatives: readonly number[] = [];
  /** Tokens whose K and V are stored; chases numTokens. */
  numComputedTokens = 0;
  /** Prompt tokens found in the prefix cache at first admission. */
  numCachedTokens = 0;
  numAdmissions = 0;
  /** Positions charged to the tenant. Positions computed again after pre-emption are not charged twice. */
  numChargedTokens = 0;
  /** Prompt tokens in the engine's statistics. */
  numCountedTokens = 0;
  /** Milliseconds from arrival to first admission; undefined before. */
  queueMs: number | undefined;
  /** Row in the batch's block tables while admitted, else −1. */
  seat = -1;
  /** Per KV group: entries of the block table already written to the seat's row of the batch. */
  readonly numTableEntriesWritten: number[];
  /**
   * Per KV group: block ids, append-only while admitted; −1 where the block was given back since no later query sees
   * it.
   */
  readonly blockTables: number[][];
  /** Per KV group: number of blocks given back, all at the start of the table. */
  readonly numGivenBack: number[];
  /** Per KV group: number of blocks evicted, for which the table has no entries. */
  readonly numEvicted: number[];
  readonly pooler: Pooler | undefined;
  /** Position of the first token of the request's second text. */
  readonly secondTextStart: number;
  /** Published (or shared) prefix nodes of the first blocks. */
  readonly nodes: PrefixNode[] = [];
  /** Chained keys of the prompt's full blocks. */
  readonly promptKeys: number[] = [];
  isPublishing = true;
  /** Earlier tokens influence the next one only through the model: no grammar, penalty or bad word reads them. */
  readonly mayHaveAlternatives: boolean;
  /** Where asked for: filled position by position; entry 0 is null. */
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
    this.isBackground = request.isBackground === true;
    this.tokens = request.promptIds;
    this.numPromptTokens = request.promptIds.length;
    this.numTokens = this.numPromptTokens;
    this.pooler = request.pooling === undefined ? undefined : new Pooler(request.pooling, this.numPromptTokens);
    this.mayHaveAlternatives = request.constraint === undefined && !readsHistory(request.sampling);
    this.secondTextStart = request.secondTextStart ?? Number.POSITIVE_INFINITY;
    this.blockTables = Array.from({ length: numGroups }, () => []);
    this.numGivenBack = new Array<number>(numGroups).fill(0);
    this.numEvicted = new Array<number>(numGroups).fill(0);
    this.numTableEntriesWritten = new Array<number>(numGroups).fill(0);
    this.promptLogprobs = request.sampling.numPromptLogprobs === undefined ? undefined : [null];
  }

  get numOutputTokens(): number {
    return this.numTokens - this.numPromptTokens;
  }

  /** Rows that drafts add to the step. */
  get numDraftRows(): number {
    return this.numDraftTokens + this.alternatives.length;
  }

  /** Output tokens still allowed. */
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
    this.alternatives = [];
  }

  #reserve(length: number): void {
    if (length <= this.tokens.length) return;
    const grown = new Int32Array(Math.max(length + 64, Math.ceil(this.numTokens * 1.5)));
    grown.set(this.tokens);
    this.tokens = grown;
  }
}

const readsHistory = ({
  badWords,
  thought,
  dry,
  presencePenalty,
  frequencyPenalty,
  repetitionPenalty,
}: SamplingParams): boolean =>
  (badWords !== undefined && badWords.length > 0) ||
  thought !== undefined ||
  dry !== undefined ||
  presencePenalty !== 0 ||
  frequencyPenalty !== 0 ||
  repetitionPenalty !== 1;

/** This step computes `numNewTokens` tokens of `sequence`, from numComputedTokens on, and then its draft. */
export interface ScheduledSequence {
  readonly sequence: Sequence;
  readonly numNewTokens: number;
}
