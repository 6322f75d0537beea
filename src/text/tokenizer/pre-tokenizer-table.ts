/**
 * The pre-tokenizers by `tokenizer.ggml.pre`, derived from the `pre_tokenizer` of each model's tokenizer.json (names,
 * order and defaults as in llama.cpp).
 *
 * JavaScript differs from the engines for which those expressions were written:
 * - Their `\s` is Unicode's White_Space; JavaScript's lacks U+0085 and adds U+FEFF, so the table has `\p{White_Space}`.
 * - `(?i:'s|'t|…)` is expanded, including U+017F, which case folding turns into an `s`.
 * - A possessive quantifier becomes a plain one if backtracking into its match could not change the result.
 */

export interface PreTokenizer {
  /** The expressions apply in order, each to the pieces of the previous one. */
  readonly expressions: readonly RegExp[];
  /** A word that is a token is encoded as a whole, even if the merges would not produce it. */
  readonly ignoresMerges: boolean;
  /** Whether BOS is added if the metadata does not say. */
  readonly addsBos: boolean;
}

const SPACE = "\\p{White_Space}";
/** White space except its last character before a word, which belongs to the word; then any remaining white space. */
const SPACES = `${SPACE}+(?!\\P{White_Space})|${SPACE}+`;
const CONTRACTION = "'(?:[stmd]|re|ve|ll)";
const CONTRACTION_ANY_CASE = "'(?:[sS\u017ftTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
const SYMBOLS = ` ?[^${SPACE}\\p{L}\\p{N}]+`;
const LINE_ENDS = `${SPACE}*[\\r\\n]+`;
const PREFIXED_LETTERS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";

const GPT2 = `${CONTRACTION}| ?\\p{L}+| ?\\p{N}+|${SYMBOLS}|${SPACES}`;

/** The cl100k family: they differ in how numbers are grouped. */
function cl100k(numbers: string): string {
  return `${CONTRACTION_ANY_CASE}|${PREFIXED_LETTERS}|${numbers}|${SYMBOLS}[\\r\\n]*|${LINE_ENDS}|${SPACES}`;
}
const LLAMA3 = cl100k("\\p{N}{1,3}");
const QWEN2 = cl100k("\\p{N}");
const QWEN35 = `${CONTRACTION_ANY_CASE}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^${SPACE}\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${LINE_ENDS}|${SPACES}`;

/**
 * The o200k family: a word is upper-case letters followed by lower-case ones; `suffix` may follow a word.
 * @param before an assertion that fails at letters outside words
 */
function o200k(suffix: string, numbers: string, symbolsEnd = "[\\r\\n/]*", before = ""): string {
  const letters = (kinds: string) => (before === "" ? `[${kinds}]` : `(?:${before}[${kinds}])`);
  const upper = letters("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}");
  const lower = letters("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}");
  const prefix = "[^\\r\\n\\p{L}\\p{N}]?";
  return `${prefix}${upper}*${lower}+${suffix}|${prefix}${upper}+${lower}*${suffix}|${numbers}|${SYMBOLS}${symbolsEnd}|${LINE_ENDS}|${SPACES}`;
}
const GPT4O = o200k(`(?:${CONTRACTION_ANY_CASE})?`, "\\p{N}{1,3}");
const TEKKEN = o200k("", "\\p{N}");
/** Runs of Han are separate words, and occur in no other word (`pat_str` of Kimi K2's tokenization_kimi.py). */
const KIMI = `\\p{Script=Han}+|${o200k(`(?:${CONTRACTION_ANY_CASE})?`, "\\p{N}{1,3}", "[\\r\\n]*", "(?!\\p{Script=Han})")}`;

const ASCII_PUNCTUATION = "!\"#$%&'()*+,\\-.\\/:;<=>?@\\[\\\\\\]^_`\\{\\|\\}~";
const DEEPSEEK3_WORDS = `[${ASCII_PUNCTUATION}][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|${LINE_ENDS}|${SPACES}`;

/**
 * The cased letters of the Unicode version that deepseek-llm uses, which includes only these from the supplementary
 * planes.
 */
const DEEPSEEK_CASED_LETTERS =
  "A-Za-z\\xb5\\xc0-\\xd6\\xd8-\\xf6\\xf8-\\u01ba\\u01bc-\\u01bf\\u01c4-\\u0293\\u0295-\\u02af\\u0370-\\u0373\\u0376\\u0377" +
  "\\u037b-\\u037d\\u037f\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u03f5\\u03f7-\\u0481\\u048a-\\u052f\\u0531-\\u0556" +
  "\\u10a0-\\u10c5\\u13a0-\\u13f5\\u13f8-\\u13fd\\u1c90-\\u1cba\\u1cbd-\\u1cbf\\u1d00-\\u1d2b\\u1d6b-\\u1d77\\u1d79-\\u1d9a" +
  "\\u1e00-\\u1f15\\u1f18-\\u1f1d\\u1f20-\\u1f45\\u1f48-\\u1f4d\\u1f50-\\u1f57\\u1f59\\u1f5b\\u1f5d\\u1f5f-\\u1f7d\\u1f80-\\u1fb4" +
  "\\u1fb6-\\u1fbc\\u1fbe\\u1fc2-\\u1fc4\\u1fc6-\\u1fcc\\u1fd0-\\u1fd3\\u1fd6-\\u1fdb\\u1fe0-\\u1fec\\u1ff2-\\u1ff4\\u1ff6-\\u1ffc" +
  "\\u2102\\u2107\\u210a-\\u2113\\u2115\\u2119-\\u211d\\u2124\\u2126\\u2128\\u212a-\\u212d\\u212f-\\u2134\\u2139\\u213c-\\u213f" +
  "\\u2145-\\u2149\\u214e\\u2183\\u2184\\u2c00-\\u2c7b\\u2c7e-\\u2ce4\\u2ceb-\\u2cee\\u2cf2\\u2cf3\\ua640-\\ua66d\\ua680-\\ua69b" +
  "\\ua722-\\ua76f\\ua771-\\ua787\\ua78b-\\ua78e\\uab70-\\uabbf\\ufb00-\\ufb06\\ufb13-\\ufb17\\uff21-\\uff3a\\uff41-\\uff5a" +
  "\\u{10400}-\\u{1044f}\\u{104b0}-\\u{104d3}\\u{104d8}-\\u{104fb}\\u{10c80}-\\u{10cb2}\\u{10cc0}-\\u{10cf2}\\u{118a0}-\\u{118df}\\u{1e900}-\\u{1e943}";

/** Han up to U+9FA5, the scripts from U+0800 up to Han, and Hangul. */
const DEEPSEEK_CJK = "[\\u4e00-\\u9fa5\\u0800-\\u4e00\\uac00-\\ud7ff]+";
const HAN_AND_KANA = "[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+";

/** Runs of characters except white space and the sentence punctuation of several scripts. */
const BLOOM = ` ?[^(${SPACE}|.,!?\\u2026\\u3002\\uff0c\\u3001\\u0964\\u06d4\\u060c)]+`;

interface Entry {
  readonly names: readonly string[];
  readonly expressions: readonly string[];
  readonly ignoresMerges?: boolean;
  readonly addsBos?: boolean;
}

const ENTRIES: readonly Entry[] = [
  { names: ["default"], expressions: ["[\\p{P}$+<=>^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"] },
  {
    names: ["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
    expressions: [LLAMA3],
    ignoresMerges: true,
    addsBos: true,
  },
  { names: ["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], expressions: [LLAMA3] },
  { names: ["minicpm5"], expressions: ["\\p{N}{1,3}", cl100k("\\p{N}+")], ignoresMerges: true },
  {
    names: [
      "gpt-2",
      "phi-2",
      "mpt",
      "olmo",
      "jais",
      "gigachat",
      "a.x-4.0",
      "mellum",
      "exaone4",
      "trillion",
      "granite-docling",
    ],
    expressions: [GPT2],
  },
  {
    names: ["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"],
    expressions: ["\\p{N}", GPT2],
  },
  { names: ["falcon"], expressions: ["[\\p{P}$+<=>^~\\|`]+", GPT2, "[0-9][0-9][0-9]"] },
  {
    names: ["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "grok-2", "solar-open"],
    expressions: [QWEN2],
  },
  { names: ["qwen35"], expressions: [QWEN35] },
  {
    names: ["deepseek-llm"],
    expressions: [
      "[\\r\\n]",
      `${SPACE}?[${DEEPSEEK_CASED_LETTERS}]+`,
      `${SPACE}?[!-\\/:-~\\uff01-\\uff0f\\uff1a-\\uff5e\\u2018-\\u201f\\u3000-\\u3002]+`,
      // The look-behind avoids an attempt at every space of a long run that does not end the text.
      `(?<!${SPACE})${SPACE}+$`,
      DEEPSEEK_CJK,
      "\\p{N}+",
    ],
  },
  {
    names: ["deepseek-coder"],
    expressions: ["[\\r\\n]", `${SPACE}?\\p{L}+`, `${SPACE}?\\p{P}+`, DEEPSEEK_CJK, "\\p{N}"],
  },
  { names: ["deepseek-v3", "hunyuan-dense", "joyai-llm"], expressions: ["\\p{N}{1,3}", HAN_AND_KANA, DEEPSEEK3_WORDS] },
  { names: ["tekken"], expressions: [TEKKEN], ignoresMerges: true, addsBos: true },
  { names: ["gpt-4o", "llama4", "kanana2", "minimax-m2"], expressions: [GPT4O] },
  { names: ["kimi-k2"], expressions: [KIMI] },
  { names: ["poro-chat", "bloom", "gpt3-finnish"], expressions: [BLOOM] },
  { names: ["viking"], expressions: [BLOOM, "\\p{N}"] },
  {
    names: ["bailingmoe", "bailingmoe2", "llada-moe"],
    expressions: [`${CONTRACTION_ANY_CASE}|${PREFIXED_LETTERS}|\\p{N}|${SYMBOLS}[\\r\\n]*|${SPACE}*[\\r\\n]|${SPACES}`],
  },
  {
    names: ["seed-coder"],
    expressions: [
      `${CONTRACTION_ANY_CASE}|${PREFIXED_LETTERS}|\\p{N}| ?[^${SPACE}\\p{L}\\p{N}\\r\\n]+|${LINE_ENDS}|${SPACES}`,
    ],
  },
];

export const PRE_TOKENIZERS: ReadonlyMap<string, PreTokenizer> = new Map(
  ENTRIES.flatMap((entry) => {
    const preTokenizer: PreTokenizer = {
      expressions: entry.expressions.map((source) => new RegExp(source, "gu")),
      ignoresMerges: entry.ignoresMerges === true,
      addsBos: entry.addsBos === true,
    };
    return entry.names.map((name) => [name, preTokenizer] as const);
  }),
);
