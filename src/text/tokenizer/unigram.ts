/**
 * Unigram (SentencePiece's, arXiv 1804.10959): the division of a piece into tokens with the largest sum of scores. A
 * character that begins no token is unknown; neighbouring unknown characters are one token.
 */
import { bytesOfPiece, corrupt, parseByteToken, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();
/** Score of an unknown character below that of the worst token. */
const UNKNOWN_PENALTY = 10;

interface UnigramOptions {
  readonly unknownId: number;
  /** Whether unknown characters become byte tokens, where the vocabulary has them all. */
  readonly hasByteFallback: boolean;
}

interface Node {
  readonly children: Map<number, Node>;
  /** −1: no token ends at this node. */
  id: number;
}

const NO_TOKEN = -1;

/**
 * Far above the sixteen characters of published models: every character of a text costs a walk of up to this length.
 */
const MAX_TOKEN_LENGTH = 256;
/** Far above the vocabularies of published models, of which the largest has a million tokens. */
const MAX_NODES = 1 << 23;

export class Unigram {
  readonly #root: Node = { children: new Map(), id: NO_TOKEN };
  #numNodes = 1;
  readonly #scores: ArrayLike<number>;
  readonly #unknownScore: number;
  readonly #idByByte = new Int32Array(256).fill(NO_TOKEN);
  readonly #cache = new WordCache();
  readonly #encodeWord = (word: string): readonly number[] => this.#best(word);

  constructor(
    private readonly vocab: Vocabulary,
    private readonly options: UnigramOptions,
  ) {
    if (vocab.scores === undefined) throw corrupt("expected a score for each token, got none");
    this.#scores = vocab.scores;
    let least = Number.POSITIVE_INFINITY;
    for (const [text, id] of vocab.idByText) {
      const score = vocab.scores[id]!;
      if (!Number.isFinite(score)) throw corrupt(`expected scores to be numbers, got ${score} for token ${id}`);
      least = Math.min(least, score);
      const byte = options.hasByteFallback ? parseByteToken(text) : undefined;
      if (byte !== undefined) this.#idByByte[byte] = id;
      this.#insert(text, id);
    }
    this.#unknownScore = least - UNKNOWN_PENALTY;
  }

  /** Appends the ids of a piece of text whose ends no token crosses. */
  encode(piece: string, out: number[]): void {
    this.#cache.append(piece, out, this.#encodeWord);
  }

  bytesOf(id: number): Uint8Array {
    return bytesOfPiece(this.vocab, id);
  }

  #insert(text: string, id: number): void {
    if (text.length > MAX_TOKEN_LENGTH) {
      throw corrupt(`expected tokens of at most ${MAX_TOKEN_LENGTH} characters, got ${text.length} for token ${id}`);
    }
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      let child = node.children.get(unit);
      if (child === undefined) {
        child = { children: new Map(), id: NO_TOKEN };
        node.children.set(unit, child);
        if (this.#numNodes++ > MAX_NODES)
          throw corrupt(`expected tokens that begin alike, got over ${MAX_NODES} beginnings`);
      }
      node = child;
    }
    node.id = id;
  }

  /** The best division, from left to right: among equal sums the first one found, whose last token begins earliest. */
  #best(word: string): readonly number[] {
    const length = word.length;
    const sums = new Float64Array(length + 1).fill(Number.NEGATIVE_INFINITY);
    /**
     * For the best division that ends at each position: the start of its last token, and that token; NO_TOKEN: an
     * unknown character.
     */
    const starts = new Int32Array(length + 1).fill(-1);
    const ids = new Int32Array(length + 1).fill(NO_TOKEN);
    sums[0] = 0;
    for (let start = 0; start < length; ) {
      const charLength = word.codePointAt(start)! > 0xffff ? 2 : 1;
      const reach = (end: number, id: number, score: number) => {
        const sum = sums[start]! + score;
        if (starts[end] !== -1 && sum <= sums[end]!) return;
        sums[end] = sum;
        starts[end] = start;
        ids[end] = id;
      };
      let hasOneCharacter = false;
      let node = this.#root.children.get(word.charCodeAt(start));
      for (let end = start + 1; node !== undefined; end++) {
        if (node.id !== NO_TOKEN) {
          reach(end, node.id, this.#scores[node.id]!);
          hasOneCharacter ||= end === start + charLength;
        }
        node = end < length ? node.children.get(word.charCodeAt(end)) : undefined;
      }
      if (!hasOneCharacter) reach(start + charLength, NO_TOKEN, this.#unknownScore);
      start += charLength;
    }
    return this.#tokensOf(word, starts, ids);
  }

  #tokensOf(word: string, starts: Int32Array, ids: Int32Array): readonly number[] {
    const cuts: { readonly text: string; readonly id: number }[] = [];
    for (let end = word.length; end > 0; end = starts[end]!) {
      const id = ids[end] === this.options.unknownId ? NO_TOKEN : ids[end]!;
      const text = word.slice(starts[end]!, end);
      const last = cuts.at(-1);
      if (id === NO_TOKEN && last?.id === NO_TOKEN) cuts[cuts.length - 1] = { text: text + last.text, id };
      else cuts.push({ text, id });
    }
    return cuts.reverse().flatMap(({ text, id }) => (id === NO_TOKEN ? this.#unknown(text) : [id]));
  }

  #unknown(text: string): readonly number[] {
    if (!this.options.hasByteFallback) return [this.options.unknownId];
    const ids = Array.from(UTF8.encode(text), (byte) => this.#idByByte[byte]!);
    return ids.includes(NO_TOKEN) ? [this.options.unknownId] : ids;
  }
}
