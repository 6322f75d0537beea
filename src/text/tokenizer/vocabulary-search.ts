/** Finds the tokens of a vocabulary whose text contains a given text, or ends with one. */
import { setImmediate as turn } from "node:timers/promises";
import type { Tokenizer } from "./tokenizer.js";

/** UTF-8 never contains this byte, so no match spans two tokens. */
const BETWEEN = "\xff";
/** Tokens read at once: other requests run in between. */
const PIECE = 8192;

/** The UTF-8 bytes of the text, each as one character. */
export const bytesOf = (text: string): string => Buffer.from(text).toString("latin1");

export class VocabularySearch {
  private constructor(
    /** Bytes of each token, by id. */
    private readonly tokens: readonly string[],
    private readonly joined: string,
    /** Start of each token in `joined`. */
    private readonly starts: Int32Array,
    private readonly byLastByte: ReadonlyMap<string, readonly number[]>,
  ) {}

  static async create(tokenizer: Tokenizer): Promise<VocabularySearch> {
    const tokens: string[] = [];
    const starts = new Int32Array(tokenizer.vocabSize);
    const byLastByte = new Map<string, number[]>();
    let end = 0;
    for (let id = 0; id < tokenizer.vocabSize; id++) {
      if (id % PIECE === PIECE - 1) await turn();
      const token = Buffer.from(tokenizer.tokenBytes(id)).toString("latin1");
      tokens.push(token);
      starts[id] = end;
      end += token.length + BETWEEN.length;
      const last = token.at(-1);
      if (last === undefined) continue;
      if (byLastByte.has(last)) byLastByte.get(last)!.push(id);
      else byLastByte.set(last, [id]);
    }
    return new VocabularySearch(tokens, tokens.join(BETWEEN), starts, byLastByte);
  }

  /** @param bytes at least one, in the form of bytesOf */
  tokensWith(bytes: string): number[] {
    const found: number[] = [];
    let id = 0;
    for (let at = this.joined.indexOf(bytes); at >= 0; at = this.joined.indexOf(bytes, this.starts[id])) {
      id = this.#idAt(at, id);
      found.push(id++);
      if (id === this.tokens.length) break;
    }
    return found;
  }

  /** Tokens that end with these bytes, or equal them. */
  tokensEndingWith(bytes: string): number[] {
    return (this.byLastByte.get(bytes.at(-1)!) ?? []).filter((id) => this.tokens[id]!.endsWith(bytes));
  }

  /** The last token, at or after `low`, that begins at or before `place`. */
  #idAt(place: number, low: number): number {
    let high = this.tokens.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! <= place) low = middle;
      else high = middle;
    }
    return low;
  }
}
