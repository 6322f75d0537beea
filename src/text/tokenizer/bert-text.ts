/**
 * BERT's preparation of text (arXiv 1810.04805, as in Hugging Face's tokenizers): cleaning, lower case, accents; then
 * words and punctuation.
 */

interface BertNormalizerOptions {
  /** Whether to drop control characters, and turn every kind of white space into a space. */
  readonly cleansText: boolean;
  /** Whether to put spaces around ideographs, so that each is a word. */
  readonly separatesIdeographs: boolean;
  readonly stripsAccents: boolean;
  readonly lowercases: boolean;
}

/** Unicode's White_Space, which includes U+0085 and excludes U+FEFF. */
const WHITE_SPACE = /\p{White_Space}/gu;
const DROPPED = /[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu;
const IDEOGRAPHS =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

export function bertNormalizer(options: BertNormalizerOptions): (text: string) => string {
  const { cleansText, separatesIdeographs, stripsAccents, lowercases } = options;
  return (text) => {
    let result = text;
    if (cleansText) result = result.replace(DROPPED, "").replace(WHITE_SPACE, " ");
    if (separatesIdeographs) result = result.replace(IDEOGRAPHS, " $& ");
    if (stripsAccents) result = result.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lowercases ? lowercase(result) : result;
  };
}

/**
 * Characters are lowercased one by one, because JavaScript's lower case of a sigma depends on its neighbours and the
 * tokenizer's does not.
 */
export function lowercase(text: string): string {
  return /^\p{ASCII}*$/u.test(text) ? text.toLowerCase() : Array.from(text, (char) => char.toLowerCase()).join("");
}

const WORDS = /[\p{P}$+<=>^`|~]|(?:(?![\p{P}$+<=>^`|~])\P{White_Space})+/gu;

/** Words without white space; each punctuation mark is a separate word. */
export const bertWords = (text: string): readonly string[] => text.match(WORDS) ?? [];
