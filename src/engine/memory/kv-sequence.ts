/** A sequence as KV memory knows it: its tokens, how many of them are stored, and the blocks it holds. */
import type { PrefixNode } from "./prefix-index.js";

export interface KvSequence {
  /** Sequences share cached prefixes only within one salt. */
  readonly cacheSalt: string;
  readonly tokens: Int32Array;
  readonly numTokens: number;
  readonly numPromptTokens: number;
  /** All positions of the prompt are computed anew: the sequence reads no cached prefix. */
  readonly needsEveryPosition: boolean;
  /** Computed in steps that have nothing else to compute. */
  readonly isBackground: boolean;
  /** Row in the batch's block tables while admitted, else −1. */
  readonly seat: number;
  readonly numAdmissions: number;
  /** Tokens whose K and V are stored. */
  numComputedTokens: number;
  /** Prompt tokens found in the prefix cache at first admission. */
  numCachedTokens: number;
  /**
   * Per KV group: block ids, append-only while admitted; −1 where no later query sees the block, so that it was given
   * back.
   */
  readonly blockTables: number[][];
  /** Per KV group: the number of blocks given back, all at the start. */
  readonly numGivenBack: number[];
  /** Per KV group: the number of blocks evicted. The table has no entries for them, and later entries have moved up. */
  readonly numEvicted: number[];
  /** Per KV group: entries of the table that the batch has already. */
  readonly numTableEntriesWritten: number[];
  /** Published (or shared) prefix nodes of the first blocks. */
  readonly nodes: PrefixNode[];
  /** Chained keys of the prompt's full blocks. */
  readonly promptKeys: number[];
  /**
   * False once another sequence has published one of its blocks with other contents under the same key, or entries are
   * evicted.
   */
  isPublishing: boolean;
}
