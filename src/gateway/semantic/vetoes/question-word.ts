/** Both must ask in the same way: what, who, when, how to, whether. Outside English, the question words must agree. */
import type { Question } from "../text/question.js";
import { isSameBag, type Veto } from "./veto.js";

const QUESTION_WORDS = new Set(
  `wer wie was wann wo warum welche welcher welches wieviel wieso woher wohin qui quoi quand où pourquoi comment combien quel quelle quels quelles quién qué cuándo
  dónde cómo cuál cuánto cuántos cuánta chi cosa quando dove perché come quale quanto quanti quem onde qual quantos wanneer waar waarom hoe welke hoeveel wie wat`.split(
    /\s+/,
  ),
);

const wordsOf = ({ words }: Question) => words.filter((word) => QUESTION_WORDS.has(word));

export const QUESTION_WORD: Veto = {
  name: "question-word",
  objects: (a, b) => a.form.kind !== b.form.kind || (a.language !== "en" && !isSameBag(wordsOf(a), wordsOf(b))),
};
