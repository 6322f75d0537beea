/** Common words that distinguish languages, and negations of several languages. */

const set = (text: string): ReadonlySet<string> => new Set(text.split(" "));

export const COMMON_WORDS: Readonly<Record<string, ReadonlySet<string>>> = {
  en: set(
    "the is are what how do does i you of to in a an and for my can it that with why who when where which on from your me please was be by",
  ),
  de: set(
    "der die das ist sind was wie ich du und nicht ein eine zu den von mit für auf warum wer wann wo welche bitte im kann man dem des mein es sich auch",
  ),
  fr: set(
    "le la les est sont que quoi comment je tu vous et pas un une des du de pour avec pourquoi qui quand où quel quelle dans mon peut ce il elle au sur est-ce qu'est-ce",
  ),
  es: set(
    "el la los las es son qué que cómo como yo tú y no un una de del para con por quién cuándo dónde cuál en mi puede puedo se al está",
  ),
  it: set(
    "il lo la gli è sono che cosa come io tu e non un una di del della per con perché chi quando dove quale nel mio può posso si al",
  ),
  pt: set(
    "o a os as é são que como eu você e não um uma de do da para com por quem quando onde qual em meu pode posso se ao está",
  ),
  nl: set(
    "de het een is zijn wat hoe ik je en niet van met voor op waarom wie wanneer waar welke in kan mijn dat te aan er",
  ),
};

/** Each counts once: a double negation is not a single one. */
export const NEGATIONS = set(
  "not no never without except none nobody nothing nowhere neither nor unless hardly barely scarcely rarely seldom non sans excluding lacking instead nicht kein keine keinen keiner nie niemals ohne außer niemand nichts pas jamais aucun aucune personne rien sin nunca jamás ningún ninguno ninguna nadie nada excepto senza mai nessuno nessuna niente tranne não nunca sem nenhum nenhuma ninguém niet geen nooit zonder behalve niemand niets avoid stop prevent refuse fail lack",
);

/** Prefixes that turn a word into its opposite. */
export const NEGATING_PREFIXES = ["un", "dis", "in", "im", "ir", "il", "non", "mis", "de", "anti", "a"] as const;

/** Names of languages, as in requests for an answer in one. */
export const LANGUAGE_NAMES = set(
  "english german french spanish italian portuguese dutch russian chinese mandarin japanese korean arabic hindi turkish polish swedish danish norwegian finnish greek hebrew thai vietnamese ukrainian czech hungarian romanian latin deutsch englisch französisch spanisch italienisch français anglais allemand espagnol italien inglés alemán francés español inglese tedesco francese",
);
