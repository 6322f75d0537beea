/**
 * The tokens that contain DRY's sequence breakers, by llama.cpp's rule: every token with the breaker in its text, and
 * every token that ends with the breaker's beginning, if the tokens of the rest follow it.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { AsyncTokenizer } from "./async-tokenizer.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";
import { bytesOf, VocabularySearch } from "./tokenizer/vocabulary-search.js";

interface Breaker {
  readonly heads: Int32Array;
  readonly tail: readonly number[];
}

/** Most tokens of a tail: a longer tail is cut, which breaks repetitions slightly more often. */
export const MAX_DRY_TAIL = 20;
/** Texts with cached tokens: clients send the same ones with each request. */
const MAX_KEPT = 256;

interface Vocabulary {
  readonly search: Promise<VocabularySearch>;
  readonly found: Map<string, readonly Breaker[]>;
}

const vocabularies = new WeakMap<Tokenizer, Vocabulary>();

function vocabularyOf(tokenizer: Tokenizer): Vocabulary {
  let vocabulary = vocabularies.get(tokenizer);
  if (vocabulary === undefined) {
    vocabulary = { search: VocabularySearch.create(tokenizer), found: new Map() };
    vocabularies.set(tokenizer, vocabulary);
  }
  return vocabulary;
}

async function find(search: VocabularySearch, encoder: AsyncTokenizer, text: string): Promise<readonly Breaker[]> {
  await turn();
  const whole = search.tokensWith(bytesOf(text));
  const isWhole = new Set(whole);
  const characters = [...text];
  const cuts = characters.slice(1).map((_, i) => i + 1);
  const rests = cuts.map((cut) => characters.slice(cut).join(""));
  const tails = await encoder.encode(rests, { addSpecial: false, parseSpecial: false });
  const breakers: Breaker[] = [{ heads: Int32Array.from(whole), tail: [] }];
  for (const [i, at] of cuts.entries()) {
    await turn();
    const heads = search.tokensEndingWith(bytesOf(characters.slice(0, at).join(""))).filter((id) => !isWhole.has(id));
    if (heads.length === 0) continue;
    breakers.push({ heads: Int32Array.from(heads), tail: Array.from(tails[i]!.ids).slice(0, MAX_DRY_TAIL) });
  }
  return breakers;
}

/** @param texts non-empty texts */
export async function dryBreakersOf(
  tokenizer: Tokenizer,
  encoder: AsyncTokenizer,
  texts: readonly string[],
): Promise<readonly Breaker[]> {
  const { search, found } = vocabularyOf(tokenizer);
  const all: (readonly Breaker[])[] = [];
  for (const text of new Set(texts)) {
    let breakers = found.get(text);
    if (breakers === undefined) {
      breakers = await find(await search, encoder, text);
      if (found.size >= MAX_KEPT) found.delete(found.keys().next().value!);
      found.set(text, breakers);
    }
    all.push(breakers);
  }
  return all.flat();
}
