/** Exercises that only copy or pick: they teach early what passages, JSON and edits need. */
import type { Draft, Exchange, ExchangeMaker } from "./chat.js";
import { toDraft } from "./chat.js";
import { fillerSentence } from "./filler.js";
import { cities, firm, firstName, fullName, inventName, names } from "./names.js";
import { joinWithAnd, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { amount, code, date, digits, email, phoneNumber, time } from "./values.js";
import { adjectives, colours, nouns, objects, verbs } from "./words.js";

const places = ["first", "second", "third", "fourth", "fifth", "sixth"] as const;

/** Any token that people write: a word, a name, a number, a code. */
export function anyWord(random: Random): string {
  return random.weighted<() => string>([
    [4, () => random.pick(nouns)],
    [2, () => random.pick(verbs)],
    [2, () => random.pick([...adjectives, ...colours, ...objects])],
    [3, () => firstName(random)],
    [1, () => random.pick(cities)],
    [3, () => inventName(random)],
    [1, () => inventName(random).toLowerCase()],
    [2, () => digits(random, random.int(1, 5))],
    [1, () => code(random)],
    [1, () => random.pick([amount, date, time, email, phoneNumber])(random)],
  ])();
}

const plainWords = (random: Random, min: number, max: number): string[] => random.sample(nouns, random.int(min, max));

const accents = [
  "café",
  "naïve",
  "jalapeño",
  "crème brûlée",
  "Straße",
  "piñata",
  "façade",
  "œuvre",
  "smørrebrød",
  "déjà vu",
  "10 °C",
  "½ cup",
  "“quoted”",
  "5 €",
  "– dash –",
  "…",
] as const;

const anyWords = (random: Random, min: number, max: number): string[] =>
  Array.from({ length: random.int(min, max) }, () => anyWord(random));

/** Long runs of words that have nothing to do with each other: only copying continues them. */
function makeText(random: Random): string {
  return random.weighted<() => string>([
    [3, () => anyWords(random, 1, 12).join(" ")],
    [3, () => anyWords(random, 12, 50).join(" ")],
    [3, () => Array.from({ length: random.int(1, 4) }, () => fillerSentence(random)).join(" ")],
    [1, () => `${random.pick(accents)} ${anyWord(random)} ${random.pick(accents)}`],
    [2, () => anyWords(random, 2, 16).join(random.pick([", ", "; ", " | ", "\n", " / "]))],
  ])();
}

function makeRepeat(random: Random): Exchange {
  const text = makeText(random);
  if (random.isChance(0.15)) {
    const question = phrase(random, "[Repeat this twice|Say this two times|Write this twice, line by line]:\n{text}", {
      text,
    });
    return { question, answer: `${text}\n${text}`, check: { kind: "exact" } };
  }
  const question = phrase(
    random,
    "[Repeat|Repeat after me|Say|Please say|Copy this|Write this again|Copy the text|Echo|Repeat this exactly|Say exactly]:\n{text}",
    { text },
  );
  return { question, answer: text, check: { kind: "exact" } };
}

/** A few words with nothing between them to learn, said again. */
export function makeEcho(random: Random): Exchange {
  const text = anyWords(random, 3, 14).join(random.pick([" ", ", ", "\n", " / "]));
  const question = phrase(random, "[Echo|Repeat this|Say exactly]:\n{text}", { text });
  return { question, answer: text, check: { kind: "exact" } };
}

function makePick(random: Random): Exchange {
  const words = random.isChance(0.5)
    ? plainWords(random, 3, 6)
    : Array.from({ length: random.int(3, 6) }, () => inventName(random));
  const index = random.int(0, words.length - 1);
  const place = index === words.length - 1 && random.isChance(0.6) ? "last" : (places[index] as string);
  const question = phrase(
    random,
    "[What is the {place} word|Which word is {place}|Tell me the {place} word|Write the {place} word|Say the {place} word][: |:\n]{words}",
    { place, words: words.join(random.pick([", ", " "])) },
  );
  return { question, answer: words[index] as string, check: { kind: "phrase" } };
}

/** What comes right after or before a word: the step from which copying is made. */
function makeNeighbour(random: Random): Exchange {
  const words = random.isChance(0.5) ? plainWords(random, 5, 12) : [...new Set(anyWords(random, 5, 12))];
  const index = random.int(1, words.length - 2);
  const isAfter = random.isChance(0.7);
  const question = phrase(
    random,
    `[Which word comes|What comes|What stands] ${isAfter ? "after" : "before"} "{word}" [in|here]: {words}`,
    {
      word: words[index] as string,
      words: words.join(", "),
    },
  );
  return { question, answer: words[isAfter ? index + 1 : index - 1] as string, check: { kind: "phrase" } };
}

function makeLookup(random: Random): Exchange {
  const keys = random.isChance(0.5) ? plainWords(random, 3, 9) : random.sample(names, random.int(3, 9));
  const isNumber = random.isChance(0.4);
  const rows = keys.map((key) => [key, isNumber ? digits(random, random.int(1, 4)) : anyWord(random)] as const);
  const [key, value] = random.pick(rows);
  const style = random.pick([": ", " = ", " -> ", " - "]);
  const table = rows.map((row) => row.join(style)).join(random.pick(["\n", ", ", "; "]));
  const question = phrase(
    random,
    "[{table}\n\n|Look up in this list:\n{table}\n\n][What stands for {key}|What belongs to {key}|What is {key}|Give me {key}|Look up {key}]?",
    { table, key },
  );
  return { question, answer: value, check: { kind: "phrase" } };
}

function makeQuote(random: Random): Exchange {
  if (random.isChance(0.5)) {
    const text = random.weighted<() => string>([
      [2, () => anyWord(random)],
      [2, () => fullName(random)],
      [1, () => firm(random)],
    ])();
    return {
      question: phrase(random, "[Put this in quotes|Write in quotation marks|Put quotation marks around]: {text}", {
        text,
      }),
      answer: `"${text}"`,
      check: { kind: "exact" },
    };
  }
  const items = anyWords(random, 1, 6);
  const list = random.isChance(0.4) ? joinWithAnd(items) : items.join(", ");
  const question = phrase(
    random,
    "[Write a JSON array of|Make a JSON list of strings with|Give me as a JSON array|Return a JSON array of strings]: {list}",
    { list },
  );
  return { question, answer: `[${items.map((item) => JSON.stringify(item)).join(", ")}]`, check: { kind: "json" } };
}

function makeSpelling(random: Random): Exchange {
  const word = random.weighted<() => string>([
    [3, () => inventName(random)],
    [2, () => random.pick(nouns)],
    [2, () => firstName(random)],
    [2, () => digits(random, random.int(2, 6))],
  ])();
  const letters = [...word];
  if (random.isChance(0.5)) {
    const question = phrase(random, "[Spell|Spell the word|Spell out|Write with spaces between the letters]: {word}", {
      word,
    });
    return { question, answer: letters.join(" "), check: { kind: "exact" } };
  }
  const question = phrase(random, "[Join these|Write as one word|Put together|Remove the spaces]: {letters}", {
    letters: letters.join(" "),
  });
  return { question, answer: word, check: { kind: "exact" } };
}

function makeLists(random: Random): Exchange {
  const items = anyWords(random, 3, 7);
  const list = items.join(", ");
  const [wish, answer] = random.pick([
    ["[Write|Turn this into|Make] a bulleted list", items.map((item) => `- ${item}`).join("\n")],
    ["[Write|Turn this into|Make] a numbered list", items.map((item, index) => `${index + 1}. ${item}`).join("\n")],
    ["[Write one per line|Put each on a line of its own]", items.join("\n")],
    ["[Write in reverse order|Reverse this list|Reverse the order]", [...items].reverse().join(", ")],
  ] as const);
  return { question: phrase(random, `${wish}: {list}`, { list }), answer, check: { kind: "exact" } };
}

export const makeCopy: ExchangeMaker = (random) =>
  random.weighted([
    [6, makeRepeat],
    [2, makePick],
    [2, makeNeighbour],
    [3, makeLookup],
    [3, makeQuote],
    [1, makeSpelling],
    [2, makeLists],
  ])(random);

/** Several exercises in one chat, mostly of different kinds. */
export const makeCopyChat = (random: Random): Draft =>
  toDraft(Array.from({ length: random.int(1, 5) }, () => makeCopy(random)));
