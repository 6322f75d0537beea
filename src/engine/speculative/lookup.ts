/**
 * Drafts from text that has been seen: the sequence's own (prompt lookup), or other outputs of this server (suffix). What followed the same
 * last tokens before is likely to follow again, where a text is copied, edited or quoted.
 */
import type { Sequence } from "../sequence.js";
import type { SpeculativeConfig } from "./config.js";
import type { Draft, Drafter } from "./drafter.js";
import { kindOfMatch } from "./drafter.js";
import { SEPARATOR, TokenIndex } from "./token-index.js";

/** Places of the same hash that one search looks at. */
const MAX_PLACES = 32;
/** Matches of so many tokens count alike. */
const LONG_MATCH = 8;
/** Places that vote on the continuation. */
const MAX_VOTERS = 8;

interface Voter {
  readonly index: TokenIndex;
  readonly end: number;
}

interface DraftOptions {
  readonly maxTokens: number;
  /** The places lie in the sequence's own text: where that ends, the draft itself goes on (a text that repeats itself). */
  readonly isOwn: boolean;
  /** The draft ends where so few of the places agree. */
  readonly minChance: number;
}

/** What followed at the places with the longest matches, token by token by majority, the newest place deciding a tie. */
function draftFrom(voters: readonly Voter[], matchLength: number, options: DraftOptions): Draft | undefined {
  const { maxTokens, isOwn, minChance } = options;
  const tokens: number[] = [];
  const confidences: number[] = [];
  let alive = voters;
  let chance = 1;
  while (tokens.length < maxTokens) {
    const votes = new Map<number, Voter[]>();
    for (const voter of alive) {
      const at = voter.end + tokens.length;
      const token = at < voter.index.length ? voter.index.at(at) : isOwn ? tokens[at - voter.index.length]! : SEPARATOR;
      if (token === SEPARATOR) continue;
      const same = votes.get(token);
      if (same === undefined) votes.set(token, [voter]);
      else same.push(voter);
    }
    let best: [token: number, voters: Voter[]] | undefined;
    for (const entry of votes) if (best === undefined || entry[1].length > best[1].length) best = entry;
    if (best === undefined) break;
    chance *= best[1].length / alive.length;
    if (chance < minChance) break;
    tokens.push(best[0]);
    confidences.push(best[1].length / alive.length);
    alive = best[1];
  }
  return tokens.length === 0 ? undefined : { tokens, confidences, kind: kindOfMatch(matchLength) };
}

/** Newest first, those of the longest match, or of a long one: what matches less far says little beside it. */
function votersOf(indexes: readonly TokenIndex[], sequence: Sequence): { voters: Voter[]; matchLength: number } {
  const places = indexes.flatMap((index) =>
    index.find(sequence.tokens, sequence.numTokens, MAX_PLACES).map((place) => ({ index, ...place })),
  );
  const matchLength = places.reduce((longest, place) => Math.max(longest, place.length), 0);
  const least = Math.min(matchLength, LONG_MATCH);
  return { voters: places.filter(({ length }) => length >= least).slice(0, MAX_VOTERS), matchLength };
}

/** Prompt lookup: the sequence's own prompt and output. */
export class PromptLookup implements Drafter {
  readonly name = "ngram";
  readonly #indexes = new Map<Sequence, TokenIndex>();

  constructor(private readonly config: SpeculativeConfig) {}

  begin(sequence: Sequence): void {
    this.#indexOf(sequence);
  }

  propose(sequence: Sequence, maxTokens: number): Draft | undefined {
    const index = this.#indexOf(sequence);
    const { voters, matchLength } = votersOf([index], sequence);
    return draftFrom(voters, matchLength, { maxTokens, isOwn: true, minChance: this.config.suffixMinTokenProb });
  }

  forget(sequence: Sequence): void {
    this.#indexes.delete(sequence);
  }

  /** Up to its last token. */
  #indexOf(sequence: Sequence): TokenIndex {
    let index = this.#indexes.get(sequence);
    if (index === undefined) {
      index = new TokenIndex(this.config.promptLookupMin);
      this.#indexes.set(sequence, index);
    }
    while (index.length < sequence.numTokens) index.append(sequence.tokens[index.length]!);
    return index;
  }
}

/** Outputs of one salt: a full index becomes the old one, and the old one is forgotten. */
interface Corpus {
  current: TokenIndex;
  numCurrentOutputs: number;
  old: TokenIndex | undefined;
}

/** Cache salts whose outputs are kept. */
const MAX_CORPORA = 64;
/** Tokens of one salt at most, however few outputs they are. */
const MAX_CORPUS_TOKENS = 1 << 20;

/** Whose outputs stand together: nobody's text shows in another's speed. */
function corpusOf({ tenant, cacheSalt }: Sequence): string {
  return JSON.stringify([tenant, cacheSalt]);
}

/** What this server wrote lately, for each tenant and cache salt apart. */
export class SuffixLookup implements Drafter {
  readonly name = "suffix";
  /** Least recently written first. */
  readonly #corpora = new Map<string, Corpus>();

  constructor(private readonly config: SpeculativeConfig) {}

  propose(sequence: Sequence, maxTokens: number): Draft | undefined {
    const corpus = this.#corpora.get(corpusOf(sequence));
    if (corpus === undefined) return undefined;
    const { voters, matchLength } = votersOf(
      [corpus.current, ...(corpus.old === undefined ? [] : [corpus.old])],
      sequence,
    );
    return draftFrom(voters, matchLength, { maxTokens, isOwn: false, minChance: this.config.suffixMinTokenProb });
  }

  forget(sequence: Sequence): void {
    const { promptLookupMin, suffixMaxCachedRequests } = this.config;
    if (sequence.numOutputTokens === 0 || suffixMaxCachedRequests === 0) return;
    const name = corpusOf(sequence);
    const corpus = this.#corpora.get(name) ?? {
      current: new TokenIndex(promptLookupMin),
      numCurrentOutputs: 0,
      old: undefined,
    };
    // The most recently written salt comes last.
    this.#corpora.delete(name);
    this.#corpora.set(name, corpus);
    if (this.#corpora.size > MAX_CORPORA) this.#corpora.delete(this.#corpora.keys().next().value!);
    const isFull = corpus.current.length + sequence.numOutputTokens > MAX_CORPUS_TOKENS / 2;
    if (isFull || corpus.numCurrentOutputs >= suffixMaxCachedRequests / 2) {
      corpus.old = corpus.current;
      corpus.current = new TokenIndex(promptLookupMin);
      corpus.numCurrentOutputs = 0;
    }
    corpus.numCurrentOutputs++;
    // The prompt's last tokens come along, so that an output's beginning can be found too.
    const first = Math.max(0, sequence.numPromptTokens - promptLookupMin);
    for (let i = first; i < sequence.numTokens; i++) corpus.current.append(sequence.tokens[i]!);
    corpus.current.append(SEPARATOR);
  }
}
