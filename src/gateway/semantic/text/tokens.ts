/**
 * Cuts a prompt into words, numbers, quotations, code and symbols. Only spaces and the marks of prose are lost, which
 * carry no meaning.
 */

type TokenKind =
  | "word"
  /**
   * Digits with the signs that belong to them: a currency, separators, an ordinal's ending, a percent sign, a unit
   * without a space.
   */
  | "number"
  /** The text between quotation marks. */
  | "quote"
  /** Code, paths, URLs, addresses, flags and identifiers. */
  | "code"
  /** Operators, brackets and other signs. */
  | "symbol"
  /** A mark of prose: it separates, and has no meaning of its own. */
  | "stop";

export interface Token {
  readonly kind: TokenKind;
  /** The text as written, after `plainText`; for a quotation, the text between its marks. */
  readonly text: string;
  readonly lower: string;
  /** Whether the word begins with a capital letter. */
  readonly isCapitalised: boolean;
  /** Whether it is the first word of a sentence, whose capital letter means nothing. */
  readonly startsSentence: boolean;
}

/** One form for characters that keyboards and word processors write in several. */
function plainText(text: string): string {
  return text
    .normalize("NFC")
    .replace(/[‘’‚‛′ʼ`´](?=\p{L})|(?<=\p{L})[’ʼ´](?=\s|$|\p{P})/gu, (mark) => (mark === "`" ? mark : "'"))
    .replace(/[“”„‟″«»]/g, '"')
    .replace(/[‐‑‒]/g, "-")
    .replace(/\s*[–—―]\s*/g, " , ")
    .replace(/[\u00a0\u2000-\u200a\u202f\u3000]/g, " ")
    .replace(/[\u200b\u200c\u2060\ufeff\u00ad]/g, "");
}

/** Scripts that are written without spaces: each character is a token. */
const UNSPACED =
  "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}";

/**
 * Patterns in the order in which they are tried. Each is a list of alternatives without nested repetition, so matching
 * takes linear time.
 */
const PATTERNS: readonly (readonly [TokenKind, string])[] = [
  ["code", "```[\\s\\S]*?```"],
  ["code", "`[^`\\n]+`"],
  ["code", "(?:https?|ftp|wss?|file|s3|git|ssh)://[^\\s<>\"']+"],
  ["code", "www\\.[^\\s<>\"']+"],
  ["code", "[\\w.+-]{1,64}@[\\w-]{1,64}(?:\\.[\\w-]{1,64})+"],
  ["quote", '"[^"\\n]{1,500}"'],
  ["quote", "(?<![\\p{L}\\p{N}])'[^'\\n]{1,500}'(?![\\p{L}\\p{N}])"],
  // Paths of files.
  ["code", "(?<![\\p{L}\\p{N}])(?:~|\\.{1,2})?(?:/[\\w.@*-]+)+/?"],
  ["code", "(?<![\\p{L}\\p{N}/])[\\w-]+(?:/[\\w-]+)*/[\\w-]+\\.\\w{1,8}"],
  ["code", "[A-Za-z]:\\\\[\\w\\\\.-]+"],
  // Flags, variables, mentions and tags.
  ["code", "(?<=^|\\s)--?[A-Za-z][\\w-]*(?:=[^\\s]+)?"],
  ["code", "[@#$%][A-Za-z_]\\w*"],
  ["word", "(?:[A-Z]\\.){2,}"],
  ["word", "(?:[A-Za-z]#|[A-Za-z]\\+\\+)(?!\\w)"],
  // Calls, dotted names and names of files; names with underscores.
  ["code", "[A-Za-z_]\\w*(?:(?:\\.|::|->)[A-Za-z_]\\w+)+(?:\\(\\))?"],
  ["code", "[A-Za-z_]\\w*\\(\\)"],
  ["code", "(?:[A-Za-z]\\w*_\\w*|_\\w+)"],
  // Dates and times, whose parts belong together.
  ["number", "\\d{4}-\\d{1,2}-\\d{1,2}|\\d{1,2}/\\d{1,2}/\\d{2,4}|\\d{1,2}\\.\\d{1,2}\\.\\d{4}"],
  ["number", "\\d{1,2}:\\d{2}(?::\\d{2})?(?:\\s?[ap]\\.?m\\b\\.?)?"],
  // Versions.
  ["number", "v?\\d+(?:\\.\\d+){2,}"],
  ["number", "[$€£¥₹₽₩]\\s?\\d[\\d,.]*(?<=\\d)(?:\\p{L}{1,8}(?![\\p{L}\\p{N}]))?"],
  ["number", "\\d[\\d,.]*(?<=\\d)(?:\\s?[%‰€£¥₹°]\\s?[CF]?(?!\\p{L})|\\p{L}{1,8}(?![\\p{L}\\p{N}]))?"],
  ["word", `[${UNSPACED}]`],
  // Words with digits or capitals inside are names: GPT-4, H2O, iPhone.
  ["word", "[\\p{L}\\p{M}]+-?\\d[\\p{L}\\p{M}\\d]*"],
  ["word", `(?:(?![${UNSPACED}])[\\p{L}\\p{M}])+(?:'(?:(?![${UNSPACED}])[\\p{L}\\p{M}])+)*'?`],
  ["symbol", "[!<>=]=+|&&|\\|\\||->|=>|<-|::|\\*\\*|\\+\\+|--+|<<|>>"],
  ["symbol", "(?<=[\\d)]|\\b\\p{L})!"],
  ["symbol", "(?<=\\d)\\s?:\\s?(?=\\d)"],
  ["stop", "[.,;:!?…¿¡。，、；：！？・]+"],
  ["symbol", "[^\\s\\p{L}\\p{N}]"],
  ["symbol", "\\S"],
];

const TOKEN = new RegExp(PATTERNS.map(([, pattern]) => `(${pattern})`).join("|"), "gu");

/** @example tokensOf("What is 5 km?").map(({ text }) => text) // ["What", "is", "5", "km", "?"] */
export function tokensOf(prompt: string): Token[] {
  const tokens: Token[] = [];
  let startsSentence = true;
  const plain = plainText(prompt);
  // In a text of capitals alone, capitals mean nothing.
  const isShouted = !/\p{Ll}/u.test(plain) && /\p{Lu}{2,}\P{L}+\p{Lu}+\P{L}+\p{Lu}/u.test(plain);
  for (const match of plain.matchAll(TOKEN)) {
    const index = match.findIndex((group, i) => i > 0 && group !== undefined) - 1;
    const kind = PATTERNS[index]![0];
    const raw = match[0];
    const text = kind === "quote" ? raw.slice(1, -1).trim() : kind === "word" ? wordText(raw, isShouted) : raw.trim();
    tokens.push({
      kind,
      text,
      lower: text.toLowerCase(),
      isCapitalised: /^\p{Lu}/u.test(text),
      startsSentence: kind === "word" && startsSentence,
    });
    if (kind === "stop") startsSentence = /[.:!?…。！？\n]/.test(raw) || (startsSentence && raw !== ",");
    else startsSentence = startsSentence && kind === "symbol";
  }
  return tokens;
}

/**
 * The word without the points of an abbreviation: U.S. is US. The apostrophe at the end marks a possessor: it stays, as
 * 's.
 */
function wordText(written: string, isShouted: boolean): string {
  const raw = isShouted ? written.toLowerCase() : written;
  if (/^(?:[A-Z]\.)+$/.test(raw)) return raw.replaceAll(".", "");
  return raw.endsWith("'") ? (/s'$/i.test(raw) ? `${raw.slice(0, -1)}'s` : raw.slice(0, -1)) : raw;
}

/**
 * Whether a word is written like a name: with a capital inside a sentence, a capital after the first letter, or a
 * digit.
 */
export function looksLikeName({ kind, text, lower, isCapitalised, startsSentence }: Token): boolean {
  if (kind !== "word") return false;
  if (/\d/.test(text) || /^\p{L}+\p{Ll}\p{Lu}/u.test(text)) return true;
  if (/^\p{Lu}{2,}$/u.test(text)) return true;
  return isCapitalised && !startsSentence && lower !== "i" && !lower.startsWith("i'");
}
