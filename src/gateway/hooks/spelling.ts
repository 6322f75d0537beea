/**
 * Other spellings of a character: compatibility forms (fullwidth, mathematical), digits of other scripts, other dashes
 * and full stops, and invisible characters. A pattern finds a text in all of them, or one invisible character would
 * hide it.
 */

const UNKNOWN = 0;
/** The character has no plainer form in one unit. */
const NONE = 1;
/** U+FFFF is not a character. */
const INVISIBLE = 0xffff;
/** Plain forms by code point, filled as needed. */
const PLAIN = new Uint16Array(0x110000);

/** Accents too: they are part of the letter before them. U+2800 is a Braille cell without a dot. */
const IGNORABLE = /^[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Mn}\u2800]$/u;
const WHITE = /^[\t\n\r]$/;
const DASH = /^\p{Dash_Punctuation}$|^\u2212$/u;
const DIGIT = /^\p{Nd}$/u;

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** The digits of a script follow each other from its zero on. */
function digitOf(code: number): number {
  let zero = code;
  while (code - zero < 9 && DIGIT.test(String.fromCodePoint(zero - 1))) zero--;
  return 0x30 + code - zero;
}

/** @returns a UTF-16 unit, INVISIBLE or NONE */
function findPlain(code: number): number {
  const text = String.fromCodePoint(code);
  if (IGNORABLE.test(text) && !WHITE.test(text)) return INVISIBLE;
  const normal = text.normalize("NFKC");
  if (DASH.test(normal)) return 0x2d;
  if (normal === "\u3002") return 0x2e;
  if (DIGIT.test(normal)) return digitOf(normal.codePointAt(0)!);
  return normal.length === 1 ? normal.charCodeAt(0) : NONE;
}

function plainOf(code: number): number {
  if (PLAIN[code] === UNKNOWN) PLAIN[code] = findPlain(code);
  return PLAIN[code]!;
}

/** Reads a text unit by unit. */
export class Speller {
  #high = 0;
  /** The unit's plain form, or the unit itself if there is none. */
  plain = 0;
  /** The unit adds nothing to the text that a reader sees; of a pair of units, the first never does. */
  isSilent = false;
  /** Units of the character that ends here. */
  numUnits = 1;

  /** The second unit of a pair is to come. */
  get isWithinPair(): boolean {
    return this.#high !== 0;
  }

  push(unit: number): void {
    this.plain = unit;
    this.numUnits = 1;
    const high = this.#high;
    this.#high = isHigh(unit) ? unit : 0;
    this.isSilent = this.#high !== 0;
    if (this.isSilent || (unit >= 0x20 && unit < 0x7f)) return;
    const isPair = high !== 0 && isLow(unit);
    if (isPair) this.numUnits = 2;
    const plain = plainOf(isPair ? 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00) : unit);
    this.isSilent = plain === INVISIBLE;
    if (plain !== INVISIBLE && plain !== NONE) this.plain = plain;
  }
}

/** The text with its characters in their plain forms, without invisible ones. */
export function plainText(text: string): string {
  let plain = "";
  const speller = new Speller();
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    speller.push(unit);
    const isPair = speller.numUnits === 2 && speller.plain === unit;
    if (!speller.isSilent) plain += isPair ? text.slice(i - 1, i + 1) : String.fromCharCode(speller.plain);
  }
  return plain;
}
