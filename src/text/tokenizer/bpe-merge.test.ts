import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BpeMerger, type MergeRules } from "./bpe-merge.js";

interface Rule {
  readonly pair: string;
  readonly rank: number;
  readonly result: number;
}

function rulesFrom(list: readonly Rule[]): MergeRules {
  return {
    find: (left, right) => list.findIndex((rule) => rule.pair === `${left},${right}`),
    rank: (rule) => list[rule]!.rank,
    result: (rule) => list[rule]!.result,
  };
}

/** The definition: while any neighbours have a rule, apply the best-ranked rule, and the leftmost of equal ones. */
function mergeSlowly(ids: readonly number[], rules: MergeRules): number[] {
  const symbols = [...ids];
  for (;;) {
    let best: { at: number; rule: number } | undefined;
    for (let at = 0; at + 1 < symbols.length; at++) {
      const rule = rules.find(symbols[at]!, symbols[at + 1]!);
      if (rule !== -1 && (best === undefined || rules.rank(rule) < rules.rank(best.rule))) best = { at, rule };
    }
    if (best === undefined) return symbols;
    symbols.splice(best.at, 2, rules.result(best.rule));
  }
}

describe("BpeMerger", () => {
  it("equals the definition for any rules, including ties of rank", () => {
    const symbol = fc.integer({ min: 0, max: 5 });
    const rule = fc.record({ left: symbol, right: symbol, rank: fc.integer({ min: 0, max: 4 }), result: symbol });
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 12 }), fc.array(symbol, { maxLength: 40 }), (list, ids) => {
        const rules = rulesFrom(
          list.map(({ left, right, rank, result }) => ({ pair: `${left},${right}`, rank, result })),
        );
        const symbols = Int32Array.from(ids);
        const numLeft = new BpeMerger(rules).merge(symbols, symbols.length);
        expect([...symbols.subarray(0, numLeft)]).toEqual(mergeSlowly(ids, rules));
      }),
      { seed: 11, numRuns: 3000 },
    );
  });

  it("takes far less than quadratic time on a long word", () => {
    // The rules are 0+0→1, 1+1→2, …, so a word of 2^18 zeros becomes one symbol.
    const merger = new BpeMerger({
      find: (left, right) => (left === right ? left : -1),
      rank: (rule) => rule,
      result: (rule) => rule + 1,
    });
    const symbols = new Int32Array(2 ** 18);
    expect(merger.merge(symbols, symbols.length)).toBe(1);
    expect(symbols[0]).toBe(18);
  });
});
