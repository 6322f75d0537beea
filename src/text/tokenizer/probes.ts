/** Texts that distinguish tokenizers. */

/**
 * Text in which pre-tokenizers differ: contractions, runs of digits and spaces, line ends, scripts, punctuation,
 * capitals, marks.
 */
export const PROBE = [
  "Hello, world! I'll say it's DON'T we'Ve\u017f'\u017f 1 12 123 1234 12345 3.14159 1,000,000 x1y22z333",
  "  two   three\n\n\n four \t tab\r\n\r\n  end   \n",
  "const fooBar = (a_b) => { return a_b**2 >> 1; } // !!! ??? ...;; <|x|> $5 + 7% ~= `q` ^|^",
  "Größe naïve cafe\u0301 ÉCOLE élan ПРИВЕТ мир Ελλάδα שלום مرحبا العالم ١٢٣ हिन्दी १२३ ไทย",
  "中文字符測試 ひらがな カタカナ 한국어 漢字かな交じり，。！？ 🚀🔥👨\u200d👩\u200d👧 ½ ² Ⅷ",
  "HTTPServer XMLHttpRequest iPhone camelCase SCREAMING_SNAKE don\u2019t \u2018q\u2019 \u201cr\u201d\u00a0nbsp\u3000wide",
  "path/to/file.txt https://a.b/c?d=e&f=g user@host #tag @me a/b//c \\n \\t",
].join("\n");

/** At least one character of each kind that some pre-tokenizer's rule distinguishes. */
const KINDS = [
  " ",
  " ",
  "  ",
  "\t",
  "\n",
  "\r\n",
  "a",
  "b",
  "T",
  "Q",
  "s",
  "'",
  "'s",
  "'LL",
  "0",
  "1",
  "22",
  "333",
  "é",
  "ß",
  "\u0301",
  "Ж",
  "中",
  "の",
  "カ",
  "한",
  "ع",
  "१",
  ".",
  ",",
  "!",
  "-",
  "_",
  "$",
  "+",
  "<",
  "|",
  "`",
  "/",
  "(",
  "“",
  "…",
  "\u00a0",
  "½",
  "🚀",
];
const NUM_RANDOM_PARTS = 20_000;

/** Random sequences of kinds with a fixed seed: rules also differ on short sequences that handwritten probes miss. */
function randomProbe(): string {
  let state = 1;
  const next = () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x297a2d39;
    return (state ^ (state >>> 12)) >>> 0;
  };
  return Array.from({ length: NUM_RANDOM_PARTS }, () => KINDS[next() % KINDS.length]!).join("");
}

/** Long runs of each kind, ended by another kind: an expression that tries all divisions of a run never finishes. */
export const RUNS: readonly string[] = KINDS.flatMap((kind) =>
  ["!", "a", "\u0001"].map((end) => kind.repeat(100) + end),
);

/** Both probes, in composed form: llama.cpp's files do not compose characters. */
export const LONG_PROBE = `${PROBE}\n${randomProbe()}`.normalize("NFC");
