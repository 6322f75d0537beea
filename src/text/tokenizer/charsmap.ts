/**
 * SentencePiece's compiled normalisation: a double-array trie (Aoe 1989, in the layout of darts-clone) from UTF-8 to
 * offsets into the replacement texts. Follows Hugging Face's tokenizers: a cluster of characters of up to five bytes is
 * looked up as a whole, otherwise each character alone, and the shortest entry counts.
 */
import { corrupt } from "./vocabulary.js";

const UTF8 = new TextEncoder();
const MOST_CLUSTER_BYTES = 5;
/** Unicode's longest replacement has 33 bytes (U+FDFA). */
const MOST_TEXT_BYTES = 256;

/** Fields of a unit of the trie. */
const LABEL = 0x800000ff;
const VALUE = 0x7fffffff;
const offsetOf = (unit: number): number => (unit >>> 10) << ((unit & 0x200) >>> 6);
const hasLeaf = (unit: number): boolean => (unit & 0x100) !== 0;

/** @throws tokenizer_corrupt */
export function charsmapNormalizer(bytes: Uint8Array): (text: string) => string {
  const map = new CharsMap(bytes);
  return (text) => map.normalize(text);
}

class CharsMap {
  readonly #units: Uint32Array;
  /** The replacements, each terminated by a zero byte. */
  readonly #texts: Uint8Array;
  readonly #segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });
  /** Replacements of single characters and clusters; undefined: they stay unchanged. */
  readonly #known = new Map<string, string | undefined>();
  static readonly #MAX_KNOWN = 1 << 16;

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const trieBytes = bytes.byteLength >= 4 ? view.getUint32(0, true) : 0;
    if (trieBytes === 0 || trieBytes % 4 !== 0 || 4 + trieBytes > bytes.byteLength) {
      throw corrupt(`expected a compiled normalisation of ${bytes.byteLength} bytes, got a trie of ${trieBytes}`);
    }
    this.#units = Uint32Array.from({ length: trieBytes / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.#texts = bytes.subarray(4 + trieBytes);
    for (let start = 0, end = 0; end <= this.#texts.length; end++) {
      if (end < this.#texts.length && this.#texts[end] !== 0) continue;
      if (end - start > MOST_TEXT_BYTES) {
        throw corrupt(`expected replacements of at most ${MOST_TEXT_BYTES} bytes, got ${end - start}`);
      }
      start = end + 1;
    }
  }

  normalize(text: string): string {
    let result = "";
    for (let start = 0; start < text.length; ) {
      // An ASCII character next to another one is a cluster by itself, except in a line end of two characters.
      let end = start;
      while (end < text.length && isAloneAt(text, end)) end++;
      result += this.#characters(text.slice(start, end));
      start = end;
      while (end < text.length && !isAloneAt(text, end)) end++;
      result += this.#clusters(text.slice(start, end));
      start = end;
    }
    return result;
  }

  #clusters(run: string): string {
    let result = "";
    for (const { segment } of this.#segmenter.segment(run)) {
      const whole = UTF8.encode(segment).length <= MOST_CLUSTER_BYTES ? this.#replacement(segment) : undefined;
      result += whole ?? this.#characters(segment);
    }
    return result;
  }

  #characters(text: string): string {
    let result = "";
    for (const char of text) result += this.#replacement(char) ?? char;
    return result;
  }

  #replacement(part: string): string | undefined {
    if (this.#known.has(part)) return this.#known.get(part);
    const found = this.#find(UTF8.encode(part));
    if (this.#known.size >= CharsMap.#MAX_KNOWN) this.#known.clear();
    this.#known.set(part, found);
    return found;
  }

  /** The replacement of the shortest entry that is a prefix of `bytes`. */
  #find(bytes: Uint8Array): string | undefined {
    const units = this.#units;
    let at = offsetOf(units[0]!);
    for (const byte of bytes) {
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = units[at];
      if (unit === undefined || (unit & LABEL) >>> 0 !== byte) return undefined;
      at ^= offsetOf(unit);
      if (hasLeaf(unit)) return this.#textAt((units[at] ?? VALUE) & VALUE);
    }
    return undefined;
  }

  #textAt(start: number): string | undefined {
    const end = this.#texts.indexOf(0, start);
    return start >= this.#texts.length || end === -1
      ? undefined
      : Buffer.from(this.#texts.subarray(start, end)).toString("utf8");
  }
}

const isAsciiAt = (text: string, at: number): boolean => !(text.charCodeAt(at) > 0x7f);

function isAloneAt(text: string, at: number): boolean {
  const isLineEnd = text[at] === "\r" || (text[at] === "\n" && text[at - 1] === "\r");
  return !isLineEnd && isAsciiAt(text, at - 1) && isAsciiAt(text, at) && isAsciiAt(text, at + 1);
}
