/**
 * Drafts from known text: the sequence's own (prompt lookup) and earlier outputs of this server (suffix). A
 * continuation of the same last tokens is likely to repeat where text is copied, edited or quoted, or where answers
 * share a form. Each token comes from the source with the higher acceptance rate for such a guess: a draft may take a
 * value from the prompt and the next key from earlier answers.
 */

import type { SpeculativeConfig } from "../api/speculative-config.js";
import type { Sequence } from "../step/sequence.js";
import { Rate } from "./acceptance.js";
import { CONTEXT_LENGTHS, ContextTable, hashContexts, LONGEST_CONTEXT, type Successor } from "./context-table.js";
import type { Draft, Drafter } from "./drafter.js";

/** Prompt tokens read per step. No draft is made before the whole prompt is read. */
const MOST_READ = 16_384;
/** Number of cache salts whose outputs are kept. */
const MAX_CORPORA = 64;
/** Contexts in a salt's table before it becomes the old table. */
const MAX_CONTEXTS = 1 << 18;
/** Half-life of an observation, in guesses. */
const MEMORY = 350;
/** Prior acceptance rate for each length of context, and its weight in guesses. */
const FIRST_GUESS = [0.3, 0.5, 0.7, 0.85, 0.95] as const;
const FIRST_WEIGHT = 4;

const NUM_SOURCES = 2;
/** Classes of confidence: the successor occurred once, twice, up to five times, or more often. */
const NUM_COUNTS = 4;
/**
 * Classes of the other source: it has no guess, agrees (with lower or higher confidence), or disagrees (by a context
 * that is longer or not).
 */
const NUM_VIEWS = 7;

const countClass = (count: number): number => (count <= 2 ? count - 1 : count <= 5 ? 2 : 3);

/** 0 to 3: class of agreement with the other source. */
const agreement = ({ order, count }: Successor): number => (order >= 2 ? 2 : 0) + (count > 1 ? 1 : 0);

/** Class of a guess; an acceptance rate is learnt for each class. */
function guessClassOf(source: number, mine: Successor, other: Successor | undefined): number {
  const view =
    other === undefined ? 0 : other.token === mine.token ? 1 + agreement(other) : other.order > mine.order ? 6 : 5;
  return ((source * CONTEXT_LENGTHS.length + mine.order) * NUM_COUNTS + countClass(mine.count)) * NUM_VIEWS + view;
}

/** The guess of one source. */
interface Guess {
  readonly token: number;
  readonly guessClass: number;
}

/** Outputs of one salt in two tables: a full table becomes the old one, and the old one is dropped. */
interface Corpus {
  current: ContextTable;
  numCurrentOutputs: number;
  old: ContextTable | undefined;
}

interface Reading {
  /** By class of guess; shared by all sequences of a kind. */
  readonly rates: readonly Rate[];
  readonly own: ContextTable;
  readonly corpus: Corpus | undefined;
  numRead: number;
  /** Guesses for the tokens from numRead on, as far as the draft was right. */
  guesses: (readonly Guess[])[];
  draft: readonly number[];
}

/** Outputs are kept apart by salt, so that one tenant's text never shows in another tenant's speed. */
const corpusName = ({ tenant, cacheSalt }: Sequence): string => JSON.stringify([tenant, cacheSalt]);

export class TextLookup implements Drafter {
  readonly name = "lookup";
  readonly #readings = new Map<Sequence, Reading>();
  /** Least recently used first. */
  readonly #corpora = new Map<string, Corpus>();
  readonly #rates = newRates();
  /** Rates of background sequences, kept apart because their texts say nothing about others. */
  readonly #backgroundRates = newRates();
  /** Index of the shortest context in use. */
  readonly #first: number;
  readonly #hashes = new Int32Array(CONTEXT_LENGTHS.length);
  /** The sequence's last tokens, then its draft. */
  readonly #tail: Int32Array;

  constructor(private readonly config: SpeculativeConfig) {
    this.#first = CONTEXT_LENGTHS.findIndex((length) => length >= config.promptLookupMin);
    this.#tail = new Int32Array(LONGEST_CONTEXT + config.numSpeculativeTokens);
  }

  begin(sequence: Sequence): void {
    this.#read(sequence);
  }

  propose(sequence: Sequence, maxTokens: number): Draft | undefined {
    const reading = this.#read(sequence);
    if (reading.numRead < sequence.numTokens) return undefined;
    const tail = this.#tail;
    const numKnown = Math.min(LONGEST_CONTEXT, sequence.numTokens);
    tail.set(sequence.tokens.subarray(sequence.numTokens - numKnown, sequence.numTokens));
    const tokens: number[] = [];
    const chances: number[] = [];
    let chance = 1;
    while (tokens.length < maxTokens) {
      const best = this.#guess(reading, numKnown + tokens.length);
      if (best === undefined) break;
      chance *= best.chance;
      if (chance < this.config.suffixMinTokenProb) break;
      tail[numKnown + tokens.length] = best.token;
      tokens.push(best.token);
      chances.push(best.chance);
    }
    reading.draft = tokens;
    return tokens.length === 0 ? undefined : { tokens, chances };
  }

  forget(sequence: Sequence): void {
    const reading = this.#readings.get(sequence);
    this.#readings.delete(sequence);
    const corpus = reading?.corpus;
    if (corpus === undefined || sequence.numOutputTokens === 0) return;
    corpus.numCurrentOutputs++;
    const isFull = corpus.current.numContexts > MAX_CONTEXTS;
    if (!isFull && corpus.numCurrentOutputs < this.config.suffixMaxCachedRequests / 2) return;
    corpus.old = corpus.current;
    corpus.current = new ContextTable();
    corpus.numCurrentOutputs = 0;
  }

  /**
   * The guesses of both sources after the tail's first `end` tokens, and the likelier one. Both are judged once the
   * token is known.
   */
  #guess(reading: Reading, end: number): { readonly token: number; readonly chance: number } | undefined {
    const hashes = this.#hashes;
    const numHashes = hashContexts(this.#tail, end, hashes);
    const own = reading.own.find(hashes, this.#first, numHashes);
    const others = findInCorpus(reading.corpus, hashes, this.#first, numHashes);
    const guesses: Guess[] = [];
    if (own !== undefined) guesses.push({ token: own.token, guessClass: guessClassOf(0, own, others) });
    if (others !== undefined) guesses.push({ token: others.token, guessClass: guessClassOf(1, others, own) });
    let best: { token: number; chance: number } | undefined;
    for (const { token, guessClass } of guesses) {
      const chance = reading.rates[guessClass]!.estimate(firstGuess(guessClass), FIRST_WEIGHT);
      if (best === undefined || chance > best.chance) best = { token, chance };
    }
    if (best !== undefined) reading.guesses.push(guesses);
    return best;
  }

  /** Takes in the new tokens: judges the guesses and learns the text. */
  #read(sequence: Sequence): Reading {
    let reading = this.#readings.get(sequence);
    if (reading === undefined) {
      reading = {
        rates: sequence.isBackground ? this.#backgroundRates : this.#rates,
        own: new ContextTable(sequence.numPromptTokens),
        corpus: this.#corpusOf(sequence),
        numRead: 0,
        guesses: [],
        draft: [],
      };
      this.#readings.set(sequence, reading);
    }
    const end = Math.min(sequence.numTokens, reading.numRead + MOST_READ);
    for (let settled = 0; reading.numRead < end; reading.numRead++, settled++) {
      const token = sequence.tokens[reading.numRead]!;
      this.#settle(reading, settled, token);
      const numHashes = hashContexts(sequence.tokens, reading.numRead, this.#hashes);
      reading.own.learn(this.#hashes, this.#first, numHashes, token);
      if (reading.numRead < sequence.numPromptTokens) continue;
      reading.corpus?.current.learn(this.#hashes, this.#first, numHashes, token);
    }
    // The remaining guesses were for another text, or will be made anew.
    reading.guesses = [];
    return reading;
  }

  #settle(reading: Reading, place: number, token: number): void {
    for (const guess of reading.guesses[place] ?? [])
      reading.rates[guess.guessClass]!.count(guess.token === token ? 1 : 0);
    if (reading.draft[place] !== token) reading.guesses.length = Math.min(reading.guesses.length, place);
  }

  #corpusOf(sequence: Sequence): Corpus | undefined {
    if (this.config.method === "ngram" || this.config.suffixMaxCachedRequests === 0) return undefined;
    const name = corpusName(sequence);
    const corpus = this.#corpora.get(name) ?? { current: new ContextTable(), numCurrentOutputs: 0, old: undefined };
    this.#corpora.delete(name);
    this.#corpora.set(name, corpus);
    if (this.#corpora.size > MAX_CORPORA) this.#corpora.delete(this.#corpora.keys().next().value!);
    return corpus;
  }
}

const newRates = (): readonly Rate[] =>
  Array.from({ length: NUM_SOURCES * CONTEXT_LENGTHS.length * NUM_COUNTS * NUM_VIEWS }, () => new Rate(MEMORY));

function firstGuess(guessClass: number): number {
  return FIRST_GUESS[Math.floor(guessClass / (NUM_COUNTS * NUM_VIEWS)) % CONTEXT_LENGTHS.length]!;
}

/** The longer context wins; in a tie, the newer table. */
function findInCorpus(
  corpus: Corpus | undefined,
  hashes: Int32Array,
  first: number,
  end: number,
): Successor | undefined {
  const current = corpus?.current.find(hashes, first, end);
  const old = corpus?.old?.find(hashes, first, end);
  if (current === undefined || old === undefined) return current ?? old;
  return old.order > current.order ? old : current;
}
