/** The engine's own prefix cache without its model: prompts are computed, evict each other, and are looked up. */
import { KvManager } from "../../src/engine/memory/kv-manager.js";
import { StateSlots } from "../../src/engine/memory/state-slots.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { blockKey, rootKey } from "../../src/text/block-hash.js";
import { request } from "./engine-requests.js";

const BLOCK_SIZE = 4;
const NUM_BLOCKS = 12;

/** @param windows of its KV groups @param numStates at the ends of prefixes, of a model with recurrent layers */
export function cacheOf(windows: readonly number[], numStates?: number) {
  const counts = numStates === undefined ? undefined : { numSequences: 1, numDrafts: 0, numSnapshots: numStates };
  const states = counts && new StateSlots(counts, BLOCK_SIZE);
  const inputs = () => ({ values: new Int32Array(BLOCK_SIZE) });
  const batch = { stateSources: inputs(), stateTargets: inputs(), stateSnapshots: inputs() };
  const kv = new KvManager({
    windows,
    numBlocks: windows.map(() => NUM_BLOCKS),
    blockSize: BLOCK_SIZE,
    maxStepTokens: BLOCK_SIZE,
    isPrefixCachingEnabled: true,
    reservedTokens: 0,
    states,
  });
  let nextId = 1;
  /** Blocks of a tree: each number says which way a prompt goes on, and one token more is behind them. */
  const tokensOf = (path: readonly number[]) => [...path.flatMap((way) => new Array<number>(BLOCK_SIZE).fill(way)), 9];
  const sequenceOf = (path: readonly number[]) => new Sequence(nextId++, request(tokensOf(path)), windows.length, 0);
  return {
    kv,
    blockSize: BLOCK_SIZE,
    compute(path: readonly number[]): void {
      const sequence = sequenceOf(path);
      kv.attachPrefix(sequence);
      while (sequence.numComputedTokens < sequence.numTokens) {
        const end = Math.min(sequence.numComputedTokens + BLOCK_SIZE, sequence.numTokens);
        if (!kv.ensureCapacity(sequence, end)) throw new Error("expected room for one prompt");
        const numNewTokens = end - sequence.numComputedTokens;
        states?.layOut(batch, sequence, { firstRow: 0, numNewTokens, numDraftTokens: 0 });
        sequence.numComputedTokens = end;
        kv.publishAndTrim(sequence);
      }
      kv.release(sequence);
    },
    /** Blocks of it that a request finds. */
    numCached(path: readonly number[]): number {
      const sequence = sequenceOf(path);
      kv.attachPrefix(sequence);
      const numBlocks = sequence.numComputedTokens / BLOCK_SIZE;
      kv.release(sequence);
      return numBlocks;
    },
    keysOf(path: readonly number[]): number[] {
      const tokens = tokensOf(path);
      const keys: number[] = [];
      for (let i = 0; i < path.length; i++)
        keys.push(blockKey(keys.at(-1) ?? rootKey(""), tokens, i * BLOCK_SIZE, BLOCK_SIZE));
      return keys;
    },
  };
}
