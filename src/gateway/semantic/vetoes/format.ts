/** Both must ask for an answer of the same form: a list, a table, JSON, a length, a tone, a language. */
import type { Question } from "../text/question.js";
import { LANGUAGE_NAMES } from "../words/languages.js";
import { isSameBag, type Veto } from "./veto.js";

const FORMATS = new Set(
  `list lists bullet bullets bulleted numbered table tables json yaml xml csv tsv html markdown latex code pseudocode diagram outline essay poem haiku limerick
  rhyme rhyming story email letter tweet paragraph paragraphs sentence sentences word words page pages line lines column columns brief briefly short shortly concise
  concisely succinct succinctly detail detailed details depth comprehensive thorough thoroughly step steps stepwise eli5 layman beginner beginners expert child
  children kid simple simply formal formally informal casual professional funny humorous sarcastic polite friendly summary summarize summarise tldr example
  examples liste tabelle kurz ausführlich tableau brève court lista tabla breve elenco tabella resumo`.split(/\s+/),
);

/** A plural asks for the same form as its singular. */
const formatsOf = ({ form }: Question) => [
  ...new Set(
    form.parts
      .map(({ text }) => text)
      .filter((word) => FORMATS.has(word) || LANGUAGE_NAMES.has(word))
      .map((word) => word.replace(/s$/, "")),
  ),
];

export const FORMAT: Veto = { name: "format", objects: (a, b) => !isSameBag(formatsOf(a), formatsOf(b)) };
