/**
 * Drafts from text that has been seen: the sequence's own (prompt lookup) and other outputs of this server (suffix). What followed the same
 * last tokens before is likely to follow again, where a text is copied, edited or quoted, or where answers have a form. Token by token the
 * source decides whose guesses of this sort have come true more often, so that a draft takes a value from the prompt and the next key from
 * earlier answers.
 */

import type { SpeculativeConfig } from "../api/speculative-config.js";
import type { Sequence } from "../step/sequence.js";
import { Rate } from "./acceptance.js";
import { CONTEXT_LENGTHS, ContextTable, hashContexts, LONGEST_CONTEXT, type Successor } from "./context-table.js";
import type { Draft, Drafter } from "./drafter.js";

/** Tokens of a prompt that are read before a step; until all are read, nothing is guessed. */
const MOST_READ = 16_384;
/** Cache salts whose outputs are kept. */
const MAX_CORPORA = 64;
/** Of a salt's table, which then becomes the old one. */
const MAX_CONTEXTS = 1 << 18;
/** Guesses after which an older one counts half. */
const MEMORY = 350;
/** What is believed of a context of each length before anything was tried, as if it were so many tries. */
const FIRST_GUESS = [0.3, 0.5, 0.7, 0.85, 0.95] as const;
const FIRST_WEIGHT = 4;

const NUM_SOURCES = 2;
/** A successor came once, twice, up to five times, more often. */
const NUM_COUNTS = 4;
/** The other source knows nothing, agrees more or less surely, disagrees by a context that is no longer, or by a longer one. */
const NUM_VIEWS = 7;

const countClass = (count: number): number => (count <= 2 ? count - 1 : count <= 5 ? 2 : 3);

/** 0 to 3: how much it means that the other source says so too. */
const agreement = ({ order, count }: Successor): number => (order >= 2 ? 2 : 0) + (count > 1 ? 1 : 0);

/** Which sort of guess it is: how often these come true is learnt together. */
function sortOf(source: number, mine: Successor, other: Successor | undefined): number {
  const view =
    other === undefined ? 0 : other.token === mine.token ? 1 + agreement(other) : other.order > mine.order ? 6 : 5;
  return ((source * CONTEXT_LENGTHS.length + mine.order) * NUM_COUNTS + countClass(mine.count)) * NUM_VIEWS + view;
}

/** What one source said would come. */
interface Guess {
  readonly token: number;
  readonly sort: number;
}

/** Outputs of one salt: a full table becomes the old one, and the old one is forgotten. */
interface Corpus {
  current: ContextTable;
  numCurrentOutputs: number;
  old: ContextTable | undefined;
}

interface Reading {
  readonly own: ContextTable;
  readonly corpus: Corpus | undefined;
  numRead: number;
  /** For the tokens from numRead on, as far as the draft was right: what was guessed there. */
  guesses: (readonly Guess[])[];
  draft: readonly number[];
}

/** Whose outputs stand together: nobody's text shows in another's speed. */
const corpusName = ({ tenant, cacheSalt }: Sequence): string => JSON.stringify([tenant, cacheSalt]);

export class TextLookup implements Drafter {
  readonly name = "lookup";
  readonly #readings = new Map<Sequence, Reading>();
  /** Least recently used first. */
  readonly #corpora = new Map<string, Corpus>();
  readonly #rates = Array.from(
    { length: NUM_SOURCES * CONTEXT_LENGTHS.length * NUM_COUNTS * NUM_VIEWS },
    () => new Rate(MEMORY),
  );
  /** Index of the shortest context that is looked at. */
  readonly #first: number;
  readonly #hashes = new Int32Array(CONTEXT_LENGTHS.length);
  /** The sequence's last tokens and its draft. */
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

  /** What the sources say comes after the tail's first `end` tokens, and the likelier of it; both are held against what comes. */
  #guess(reading: Reading, end: number): { readonly token: number; readonly chance: number } | undefined {
    const hashes = this.#hashes;
    const numHashes = hashContexts(this.#tail, end, hashes);
    const own = reading.own.find(hashes, this.#first, numHashes);
    const others = findInCorpus(reading.corpus, hashes, this.#first, numHashes);
    const guesses: Guess[] = [];
    if (own !== undefined) guesses.push({ token: own.token, sort: sortOf(0, own, others) });
    if (others !== undefined) guesses.push({ token: others.token, sort: sortOf(1, others, own) });
    let best: { token: number; chance: number } | undefined;
    for (const { token, sort } of guesses) {
      const chance = this.#rates[sort]!.estimate(firstGuess(sort), FIRST_WEIGHT);
      if (best === undefined || chance > best.chance) best = { token, chance };
    }
    if (best !== undefined) reading.guesses.push(guesses);
    return best;
  }

  /** Takes in what has come since: it settles what was guessed, and is learnt. */
  #read(sequence: Sequence): Reading {
    let reading = this.#readings.get(sequence);
    if (reading === undefined) {
      reading = {
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
    // What else was guessed was for a text that did not come, or is guessed anew.
    reading.guesses = [];
    return reading;
  }

  #settle(reading: Reading, place: number, token: number): void {
    for (const guess of reading.guesses[place] ?? []) this.#rates[guess.sort]!.count(guess.token === token ? 1 : 0);
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

function firstGuess(sort: number): number {
  return FIRST_GUESS[Math.floor(sort / (NUM_COUNTS * NUM_VIEWS)) % CONTEXT_LENGTHS.length]!;
}

/** By the longer context; the newer table decides a tie. */
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
