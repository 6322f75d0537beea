/**
 * Guesses the language of a prompt from its script and, for Latin script, from its most frequent words. Meant for
 * routing: no result unless it is sure.
 */

/** Scripts that are told apart, by their Unicode names. */
export const SCRIPTS = [
  "Latin",
  "Cyrillic",
  "Greek",
  "Arabic",
  "Hebrew",
  "Devanagari",
  "Thai",
  "Han",
  "Hiragana",
  "Katakana",
  "Hangul",
] as const;

export type Script = (typeof SCRIPTS)[number];

/** ISO 639-1 codes that the rules can name. */
export const LANGUAGES = [
  "en",
  "de",
  "fr",
  "es",
  "it",
  "pt",
  "nl",
  "ru",
  "el",
  "ar",
  "he",
  "hi",
  "th",
  "zh",
  "ja",
  "ko",
] as const;

export type Language = (typeof LANGUAGES)[number];

const PATTERNS: readonly (readonly [Script, RegExp])[] = SCRIPTS.map((script) => [
  script,
  new RegExp(`\\p{Script=${script}}`, "gu"),
]);

/**
 * Scripts that mean one language here. Cyrillic and Arabic script are used for others too, but a rule can name only
 * this one.
 */
const LANGUAGE_OF: Readonly<Partial<Record<Script, Language>>> = {
  Cyrillic: "ru",
  Greek: "el",
  Arabic: "ar",
  Hebrew: "he",
  Devanagari: "hi",
  Thai: "th",
  Han: "zh",
  Hiragana: "ja",
  Katakana: "ja",
  Hangul: "ko",
};

/** Frequent words of each language in Latin script. A word of several languages counts for each. */
const WORDS: readonly (readonly [Language, ReadonlySet<string>])[] = (
  [
    ["en", "the of and to in is that it for you with on are this what how be from have can which your not by write"],
    ["de", "der die das und ist nicht ich du mit ein eine zu den von wie was auf für sich dem im es wir sie schreibe"],
    ["fr", "le la les des et est un une que pour dans qui pas vous je sur avec ce il du au comment quel écris sont"],
    ["es", "el la los las de y que en un una es por con para no se su del cómo qué lo como escribe más al"],
    ["it", "il la di che e è un una per con non del sono come cosa gli le nel della scrivi questo più si da"],
    ["pt", "o a os as de e que em um uma é para com não do da como por se no na escreva mais você ao"],
    ["nl", "de het een en van is dat niet ik je met op te voor zijn wat hoe die aan er schrijf dit naar om"],
  ] as const
).map(([language, words]) => [language, new Set(words.split(" "))]);

/** Only this many characters of a prompt are read. */
const MAX_CHARACTERS = 4000;
/** Frequent words of a language that a text must have; fewer may be chance. */
const MIN_WORDS = 2;

/** The script of most letters; undefined for a text without any of the known scripts. */
export function scriptOf(text: string): Script | undefined {
  const start = text.slice(0, MAX_CHARACTERS);
  const counts = new Map(PATTERNS.map(([script, pattern]) => [script, start.match(pattern)?.length ?? 0]));
  // Japanese mixes three scripts; the kana distinguish it from Chinese.
  const kana = (counts.get("Hiragana") ?? 0) + (counts.get("Katakana") ?? 0);
  if (kana > 0 && 4 * kana > (counts.get("Han") ?? 0)) {
    counts.set("Hiragana", kana + (counts.get("Han") ?? 0));
    counts.set("Han", 0);
  }
  let best: Script | undefined;
  for (const [script, count] of counts) if (count > (best === undefined ? 0 : counts.get(best)!)) best = script;
  return best;
}

/** @returns undefined if the text is too short to tell, or in a language that rules cannot name */
export function languageOf(text: string): Language | undefined {
  const script = scriptOf(text);
  if (script === undefined || script !== "Latin") return script === undefined ? undefined : LANGUAGE_OF[script];
  const words =
    text
      .slice(0, MAX_CHARACTERS)
      .toLowerCase()
      .match(/\p{L}+/gu) ?? [];
  const scored = WORDS.map(([language, known]) => ({
    language,
    count: words.filter((word) => known.has(word)).length,
  })).sort((a, b) => b.count - a.count);
  const [first, second] = scored;
  return first!.count >= MIN_WORDS && first!.count > second!.count ? first!.language : undefined;
}
