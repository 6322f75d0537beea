/**
 * Enforces lengths of strings that a grammar only signals (text/grammar/string-length.ts): counts characters, and bars
 * tokens that would make a string too long or close it too early.
 */
import {
  boundsOf,
  type LengthBounds,
  MAX_COUNTED_LENGTH,
  MAX_COUNTED_MINIMUM,
} from "../../text/grammar/string-length.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const HEX_DIGITS = 4;

const isInsideCharacter = (byte: number): boolean => (byte & 0xc0) === 0x80;

/** Position within a string, after its opening quote. */
interface Progress {
  /** Characters begun so far. */
  readonly numCharacters: number;
  readonly isClosed: boolean;
  readonly isInEscape: boolean;
}

/** Reads the string's characters up to the closing quote or the end of the text. */
function readString(bytes: ArrayLike<number>, from: number, to: number): Progress {
  let numCharacters = 0;
  let numEscaped = 0;
  for (let i = from; i < to; i++) {
    const byte = bytes[i]!;
    if (numEscaped > 0) {
      // After the backslash: u and four digits, or one character.
      const isUnicode = numEscaped === 1 && byte === LETTER_U && bytes[i - 1] === BACKSLASH;
      numEscaped = isUnicode ? HEX_DIGITS : numEscaped - 1;
    } else if (byte === QUOTE) return { numCharacters, isClosed: true, isInEscape: false };
    else if (byte === BACKSLASH) {
      numCharacters++;
      numEscaped = 1;
    } else if (!isInsideCharacter(byte)) numCharacters++;
  }
  return { numCharacters, isClosed: false, isInEscape: numEscaped > 0 };
}

/** Facts of a model's tokens that bounds need, as masks with one bit per token. */
export class TokenLengths {
  /** Words that the model's token ids take in a mask; the bits of signals follow. */
  readonly numWords: number;
  /** Tokens that alone cannot take a string beyond the length that grammars count themselves. */
  readonly modest: Int32Array;
  readonly singleBytes: Int32Array;
  /** Most characters of any token. */
  readonly longest: number;
  readonly #closing: Uint8Array;
  readonly #numCharacters: Uint16Array;
  readonly #within: Int32Array[] = [];
  readonly #closingFrom: Int32Array[] = [];

  /** @param tokens bytes of each token, by id */
  constructor(tokens: readonly Uint8Array[]) {
    this.numWords = Math.ceil(tokens.length / 32);
    const read = tokens.map((bytes) => readString(bytes, 0, bytes.length));
    this.#numCharacters = Uint16Array.from(read, ({ numCharacters }) => numCharacters);
    this.#closing = Uint8Array.from(read, ({ isClosed }) => Number(isClosed));
    this.longest = this.#numCharacters.reduce((a, b) => Math.max(a, b), 0);
    this.modest = this.#maskOf((id) => isModest(tokens[id]!));
    this.singleBytes = this.#maskOf((id) => tokens[id]!.length === 1);
  }

  /** Mask of tokens with at most `numCharacters` characters before a closing quote. */
  within(numCharacters: number): Int32Array {
    this.#within[numCharacters] ??= this.#maskOf((id) => this.#numCharacters[id]! <= numCharacters);
    return this.#within[numCharacters]!;
  }

  /** Mask of tokens that do not close the string, or have at least `numCharacters` characters before they do. */
  closingFrom(numCharacters: number): Int32Array {
    const least = Math.min(numCharacters, this.longest + 1);
    this.#closingFrom[least] ??= this.#maskOf((id) => !this.#closing[id] || this.#numCharacters[id]! >= least);
    return this.#closingFrom[least]!;
  }

  #maskOf(isIn: (id: number) => boolean): Int32Array {
    const mask = new Int32Array(this.numWords);
    for (let id = 0; id < this.#numCharacters.length; id++) if (isIn(id)) mask[id >> 5]! |= 1 << (id & 31);
    return mask;
  }
}

/** After each quote in the token come no more characters than grammars count themselves. */
function isModest(bytes: Uint8Array): boolean {
  for (let i = bytes.indexOf(QUOTE); i !== -1; i = bytes.indexOf(QUOTE, i + 1)) {
    const rest = bytes.subarray(i + 1);
    const control = rest.findIndex((byte) => byte < 0x20);
    const { numCharacters, isClosed } = readString(rest, 0, control === -1 ? rest.length : control);
    if (numCharacters > MAX_COUNTED_LENGTH || (isClosed && numCharacters >= MAX_COUNTED_MINIMUM)) return false;
  }
  return true;
}

/** A string with signalled bounds, and its start in the output. */
interface OpenString extends LengthBounds {
  readonly start: number;
}

/** A position in the output, as returned by `mark`. */
export interface BoundsMark {
  readonly length: number;
  readonly open: OpenString | undefined;
}

/** A request's output, and the bounds at its end. */
export class StringBounds {
  #output = new Uint8Array(256);
  #length = 0;
  #open: OpenString | undefined;

  constructor(
    private readonly tokens: readonly Uint8Array[],
    private readonly lengths: TokenLengths,
  ) {}

  append(tokenId: number): void {
    const bytes = this.tokens[tokenId]!;
    if (this.#length + bytes.length > this.#output.length) {
      const grown = new Uint8Array(2 * (this.#length + bytes.length));
      grown.set(this.#output);
      this.#output = grown;
    }
    this.#output.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** The end of the output, with the bounds that hold there. */
  mark(): BoundsMark {
    return { length: this.#length, open: this.#open };
  }

  /** Returns to an earlier position, or to a later one whose bytes have been appended since. */
  goTo({ length, open }: BoundsMark): void {
    this.#length = length;
    this.#open = open;
  }

  /**
   * Bars tokens that would break a bound. Call for every position in order: bounds are signalled between the characters
   * of a string, never within an escape.
   * @param mask the position's mask, with the bits of signals after those of tokens
   */
  restrict(mask: Int32Array): void {
    const lengths = this.lengths;
    and(mask, lengths.modest);
    const bounds = signalled(mask, lengths.numWords);
    if (bounds !== undefined) this.#open = { ...bounds, start: this.#startOfString() };
    if (this.#open === undefined) return;
    const { start, min, max } = this.#open;
    const { numCharacters, isClosed, isInEscape } = readString(this.#output, start, this.#length);
    if (isClosed) {
      this.#open = undefined;
      return;
    }
    const numLeft = max === undefined ? Number.POSITIVE_INFINITY : max - numCharacters;
    const numMissing = min - numCharacters;
    if (numLeft >= lengths.longest && numMissing <= 0) return;
    // To the end of an escape only single bytes are allowed: the meaning of a longer token depends on the start of the
    // escape.
    if (isInEscape) and(mask, lengths.singleBytes);
    else {
      if (numLeft < lengths.longest) and(mask, lengths.within(numLeft));
      if (numMissing > 0) and(mask, lengths.closingFrom(numMissing));
    }
  }

  /** Position after the last quote that is not escaped: the open string begins there. */
  #startOfString(): number {
    for (let i = this.#length - 1; i >= 0; i--) {
      if (this.#output[i] !== QUOTE) continue;
      let numBackslashes = 0;
      while (this.#output[i - 1 - numBackslashes] === BACKSLASH) numBackslashes++;
      if (numBackslashes % 2 === 0) return i + 1;
    }
    return 0;
  }
}

function signalled(mask: Int32Array, numWords: number): LengthBounds | undefined {
  const signals: number[] = [];
  for (let word = numWords; word < mask.length; word++) {
    for (let bit = 0; bit < 32 && mask[word] !== 0; bit++) {
      if ((mask[word]! >>> bit) & 1) signals.push((word - numWords) * 32 + bit);
    }
  }
  return boundsOf(signals);
}

function and(mask: Int32Array, other: Int32Array): void {
  for (let i = 0; i < other.length; i++) mask[i]! &= other[i]!;
}
