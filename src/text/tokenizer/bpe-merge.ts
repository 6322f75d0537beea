/**
 * The merge loop of both BPE kinds: joins the best-ranked neighbours until no rule applies, in O(n log n) for any
 * length.
 */

/** Merge rules over symbol ids. A rule is a non-negative number with a rank (lower first) and a resulting id. */
export interface MergeRules {
  /** The rule that joins two neighbours, or -1. */
  find(leftId: number, rightId: number): number;
  rank(rule: number): number;
  result(rule: number): number;
}

/**
 * Heap keys are `rank * KEY_STRIDE + position`, exact in a double while rank < 2^22. Among equal ranks the leftmost
 * comes first.
 */
const KEY_STRIDE = 2 ** 31;
const SCRATCH_SYMBOLS = 4096;

export class BpeMerger {
  readonly #rules: MergeRules;
  readonly #scratch = newLinks(SCRATCH_SYMBOLS);

  constructor(rules: MergeRules) {
    this.#rules = rules;
  }

  /**
   * Merges `ids` in place until no rule applies. Returns the number of remaining symbols, which are packed at the
   * front.
   */
  merge(ids: Int32Array, numSymbols: number): number {
    if (numSymbols < 2) return numSymbols;
    const links = numSymbols <= SCRATCH_SYMBOLS ? this.#scratch : newLinks(numSymbols);
    const heap = new MinHeap();
    for (let i = 0; i < numSymbols; i++) {
      links.prev[i] = i - 1;
      links.next[i] = i + 1 < numSymbols ? i + 1 : -1;
      links.rule[i] = -1;
    }
    for (let i = 0; i + 1 < numSymbols; i++) this.#offer(ids, links, heap, i);
    for (let key = heap.pop(); key !== undefined; key = heap.pop()) this.#apply(key, ids, links, heap);
    let numLeft = 0;
    for (let i = 0; i !== -1; i = links.next[i]!) ids[numLeft++] = ids[i]!;
    return numLeft;
  }

  /** Looks up the rule for symbol `left` and its right neighbour and queues it. */
  #offer(ids: Int32Array, links: Links, heap: MinHeap, left: number): void {
    const right = links.next[left]!;
    const rule = right === -1 ? -1 : this.#rules.find(ids[left]!, ids[right]!);
    links.rule[left] = rule;
    if (rule !== -1) heap.push(this.#rules.rank(rule) * KEY_STRIDE + left);
  }

  #apply(key: number, ids: Int32Array, links: Links, heap: MinHeap): void {
    const left = key % KEY_STRIDE;
    const rule = links.rule[left]!;
    // Skips outdated entries: a merged symbol has no rule, and a changed pair has another rank (or an equal rank and
    // thus the same key).
    if (rule === -1 || this.#rules.rank(rule) !== (key - left) / KEY_STRIDE) return;
    const right = links.next[left]!;
    const after = links.next[right]!;
    ids[left] = this.#rules.result(rule);
    links.next[left] = after;
    links.rule[right] = -1;
    if (after !== -1) links.prev[after] = left;
    const before = links.prev[left]!;
    if (before !== -1) this.#offer(ids, links, heap, before);
    this.#offer(ids, links, heap, left);
  }
}

/** A doubly linked list over symbol positions, and the rule each symbol has with its right neighbour. */
interface Links {
  readonly prev: Int32Array;
  readonly next: Int32Array;
  readonly rule: Int32Array;
}

function newLinks(numSymbols: number): Links {
  return { prev: new Int32Array(numSymbols), next: new Int32Array(numSymbols), rule: new Int32Array(numSymbols) };
}

/** Binary min-heap of numbers. */
class MinHeap {
  readonly #keys: number[] = [];

  push(key: number): void {
    const keys = this.#keys;
    let hole = keys.length;
    keys.push(key);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[hole] = keys[parent]!;
      hole = parent;
    }
    keys[hole] = key;
  }

  pop(): number | undefined {
    const keys = this.#keys;
    const smallest = keys[0];
    const last = keys.pop();
    if (last === undefined || keys.length === 0) return smallest;
    let hole = 0;
    for (let child = 1; child < keys.length; child = 2 * hole + 1) {
      if (child + 1 < keys.length && keys[child + 1]! < keys[child]!) child++;
      if (keys[child]! >= last) break;
      keys[hole] = keys[child]!;
      hole = child;
    }
    keys[hole] = last;
    return smallest;
  }
}
