/** Allowed tokens and bad words: the masks against plain sets, and whole answers with and without drafts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { GREEDY, request, runAlone } from "../../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api/options.js";
import type { SamplingParams } from "../api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../api/speculative-config.js";
import { EngineCore } from "../engine-core.js";
import { TokenBars } from "./token-bars.js";

const folder = mkdtempSync(join(tmpdir(), "token-bars-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const VOCAB = 37;
const idsOf = (words: ArrayLike<number>) =>
  Array.from({ length: VOCAB }, (_, id) => id).filter((id) => (words[id >> 5]! >>> (id & 31)) & 1);
const wordsOf = (ids: readonly number[]) => {
  const words = new Int32Array(2);
  for (const id of ids) words[id >> 5]! |= 1 << (id & 31);
  return words;
};

describe("a position's mask", () => {
  const id = fc.integer({ min: 0, max: VOCAB - 1 });
  const few = fc.integer({ min: 30, max: 36 });

  it("is what plain sets say", () => {
    fc.assert(
      fc.property(
        fc.record({
          allowed: fc.option(fc.array(few, { minLength: 1 }), { nil: undefined }),
          badWords: fc.array(fc.array(few, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 6 }),
          grammar: fc.option(fc.array(id, { minLength: 1 }), { nil: undefined }),
          tokens: fc.array(few, { minLength: 4, maxLength: 12 }),
          numPromptTokens: fc.integer({ min: 1, max: 4 }),
        }),
        ({ allowed, badWords, grammar, tokens, numPromptTokens }) => {
          const sampling: SamplingParams = { ...GREEDY, allowedTokenIds: allowed, badWords };
          const sequence = { sampling, numPromptTokens, tokens: Int32Array.from(tokens) };
          const position = tokens.length;
          const mask = new TokenBars(VOCAB).maskAt(sequence, position, grammar && wordsOf(grammar));
          const output = tokens.slice(numPromptTokens).join(",");
          const barred = badWords
            .filter((word) =>
              `,${output}`.endsWith(
                word
                  .slice(0, -1)
                  .map((each) => `,${each}`)
                  .join(""),
              ),
            )
            .map((word) => word.at(-1));
          const all = Array.from({ length: VOCAB }, (_, each) => each);
          const byGrammar = all.filter((each) => grammar?.includes(each) !== false);
          const byBoth = byGrammar.filter((each) => allowed?.includes(each) !== false);
          const kept = byBoth.length === 0 ? byGrammar : byBoth;
          const left = kept.filter((each) => !barred.includes(each));
          expect(idsOf(mask!)).toEqual(left.length === 0 ? kept : left);
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each([
    ["before the bound", [1, 2], [20, 21], undefined],
    ["at the bound", [1, 2], [20, 21, 22], [9]],
    ["behind the thought", [1, 2], [20, 9, 22, 23], undefined],
    ["before the grammar, which allows no end", [1, 2], [20, 21, 22], [5], [5]],
    ["with a marker before the bound", [1, 2], [8, 21, 22], undefined, undefined, 8],
    ["with a marker behind white space, at the bound", [1, 2], [7, 8, 21, 22, 23], [9], undefined, 8],
    ["with a marker behind text", [1, 2], [20, 8, 21, 22, 23], undefined, undefined, 8],
    ["with a marker behind much white space", [1, 2], [7, 6, 7, 6, 7, 8, 21, 22, 23], [9], undefined, 8],
    ["without its marker", [1, 8], [20, 21, 22, 23, 24, 8], undefined, undefined, 8],
  ] as const)("leaves the end of a thought alone: %s", (_name, prompt, output, left, grammar?, openId?) => {
    const opening = openId === undefined ? {} : { opening: { id: openId, blankIds: new Set([6, 7]) } };
    const thought = { maxTokens: 3, closeId: 9, ...opening };
    const tokens = Int32Array.from([...prompt, ...output]);
    const sequence = { sampling: { ...GREEDY, thought }, numPromptTokens: prompt.length, tokens };
    const mask = new TokenBars(VOCAB).maskAt(sequence, tokens.length, grammar && wordsOf(grammar));
    expect(mask && idsOf(mask)).toEqual(left);
  });

  it("is the grammar's own, or none, where nothing is asked for", () => {
    const sequence = { sampling: GREEDY, numPromptTokens: 1, tokens: Int32Array.of(1, 2) };
    const bars = new TokenBars(VOCAB);
    const grammar = wordsOf([1]);
    expect(bars.maskAt(sequence, 2, grammar)).toBe(grammar);
    expect(bars.maskAt(sequence, 2, undefined)).toBeUndefined();
  });
});

describe("answers", () => {
  const path = join(folder, "model.gguf");
  writeRandomModel(path, { architecture: "llama", seed: 3 });
  const speculative = {
    ...DEFAULT_SPECULATIVE_CONFIG,
    method: "ngram",
    numSpeculativeTokens: 6,
    isAdaptive: false,
  } as const;
  const withCore = async <T>(options: object, use: (core: EngineCore) => T | Promise<T>): Promise<T> => {
    const backend = createCpuBackend({ numThreads: 2 });
    try {
      const fixed = { modelPath: path, numThreads: 2, maxModelLen: 256, kvCacheMemoryBytes: 2 ** 24 };
      return await use(
        await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...fixed, ...options }, backend),
      );
    } finally {
      backend.destroy();
    }
  };
  const answer = (sampling: Partial<SamplingParams>, options: object = {}) =>
    withCore(
      options,
      async (core) => (await runAlone(core, request([5, 6, 7, 5, 6, 7], { maxTokens: 60, ...sampling }))).tokenIds,
    );

  it("keep to allowed tokens and leave bad words out, the same with drafts as without", async () => {
    const allowedTokenIds = [11, 12, 13, 14];
    const free = await answer({ allowedTokenIds });
    expect(free.every((token) => allowedTokenIds.includes(token))).toBe(true);
    for (const length of [1, 2, 3]) {
      const badWord = free.slice(10, 10 + length);
      const sampling = { allowedTokenIds, badWords: [badWord], temperature: 0 };
      const plain = await answer(sampling);
      expect(`,${plain.join(",")},`).not.toContain(`,${badWord.join(",")},`);
      expect(plain).not.toEqual(free);
      expect(await answer(sampling, { speculative })).toEqual(plain);
      const drawn = { ...sampling, temperature: 1, seed: 5n };
      expect(await answer(drawn, { speculative })).toEqual(await answer(drawn));
    }
  });

  it("end thoughts at their bound, the same with drafts as without", async () => {
    for (const maxTokens of [0, 1, 7, 20]) {
      const thought = { maxTokens, closeId: 9 };
      const badWords = [[9]];
      for (const drawn of [{ temperature: 0 }, { temperature: 1, seed: 5n }]) {
        const free = await answer({ ...drawn, badWords });
        const bounded = await answer({ ...drawn, badWords, thought });
        expect(bounded.indexOf(9)).toBe(maxTokens);
        expect(bounded.slice(0, maxTokens)).toEqual(free.slice(0, maxTokens));
        expect(bounded.lastIndexOf(9)).toBe(maxTokens);
        expect(await answer({ ...drawn, badWords, thought }, { speculative })).toEqual(bounded);
      }
    }
  });

  it("end where nothing but the end is left, also before min_tokens", async () => {
    expect(await answer({ allowedTokenIds: [9], stopTokenIds: [9], minTokens: 5 })).toEqual([9]);
  });
});
