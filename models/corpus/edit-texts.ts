/** Edits of plain text: sentences, letters and lists. */
import { fillerSentence } from "./filler.js";
import { cities, firstName, names } from "./names.js";
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { date, time } from "./values.js";
import { colours, days, nouns, objects, rooms, verbs } from "./words.js";

interface TextEdit {
  readonly text: string;
  readonly instruction: string;
  readonly result: string;
}

function noteSlots(random: Random): Record<string, string> {
  return {
    name: firstName(random),
    other: random.pick(names),
    city: random.pick(cities),
    day: random.pick(days),
    date: date(random),
    time: time(random),
    object: random.pick(objects),
    colour: random.pick(colours),
    room: random.pick(rooms),
    noun: random.pick(nouns),
    count: String(random.int(2, 90)),
    verb: random.pick(verbs),
  };
}

const sentences: readonly string[] = [
  "[Dear|Hello|Hi] {name}, thank you for the {colour} {object}.",
  "The meeting is on {day} at {time} in the {room}.",
  "Please bring {count} copies of the {noun}.",
  "{other} from {city} will join us.",
  "We moved the {object} to the {room}.",
  "I hope to see you in {city} on {date}.",
  "The {noun} was {colour} and cost {count} euros.",
  "Could you {verb} the {object} before {day}?",
  "{name} asked for a new {noun}.",
  "There are {count} people on the list.",
  "Call me at {time} if the {noun} is late.",
  "Our office in {city} is closed on {day}.",
];

/** Several sentences that share their names and things. */
function makeNote(random: Random): { readonly parts: readonly string[]; readonly slots: Record<string, string> } {
  const slots = noteSlots(random);
  const chosen = random.sample(sentences, random.int(2, 5)).map((sentence) => phrase(random, sentence, slots));
  const parts = random.isChance(0.3) ? [...chosen, fillerSentence(random)] : chosen;
  return { parts, slots };
}

/** A word or number that is not part of a longer one, of a time or of an amount. */
const wholeWord = (word: string): RegExp =>
  new RegExp(`(?<![\\p{L}\\d]|\\d[:.-])${word.replace(/[.*+?^$()|[\]\\]/g, "\\$&")}(?![\\p{L}\\d]|[:.-]\\d)`, "gu");

const substitutes: Readonly<Record<string, (random: Random) => string>> = {
  name: firstName,
  other: firstName,
  city: (random) => random.pick(cities),
  day: (random) => random.pick(days),
  date,
  time,
  object: (random) => random.pick(objects),
  colour: (random) => random.pick(colours),
  room: (random) => random.pick(rooms),
  noun: (random) => random.pick(nouns),
  count: (random) => String(random.int(2, 900)),
};

function replaceWord(random: Random): TextEdit | undefined {
  const { parts, slots } = makeNote(random);
  const text = parts.join(" ");
  const kind = random.pick(Object.keys(substitutes));
  const before = slots[kind] as string;
  const after = (substitutes[kind] as (random: Random) => string)(random);
  if (before === after || !wholeWord(before).test(text)) return undefined;
  const instruction = phrase(
    random,
    "[Replace {before} with {after}|Change {before} to {after}|Write {after} instead of {before}|Put {after} in place of {before}|Use {after} where it says {before}]",
    { before, after },
  );
  return { text, instruction, result: text.replace(wholeWord(before), () => after) };
}

function removeSentence(random: Random): TextEdit {
  const { parts } = makeNote(random);
  const index = random.int(0, parts.length - 1);
  const place =
    index === parts.length - 1 && random.isChance(0.6)
      ? "last"
      : (["first", "second", "third", "fourth", "fifth", "sixth"][index] as string);
  const instruction = phrase(
    random,
    '[Remove the {place} sentence|Delete the {place} sentence|Take out the {place} sentence|Leave out the sentence "{sentence}"]',
    { place, sentence: parts[index] as string },
  );
  return { text: parts.join(" "), instruction, result: parts.filter((_, other) => other !== index).join(" ") };
}

function addSentence(random: Random): TextEdit {
  const { parts } = makeNote(random);
  const added = random.isChance(0.5)
    ? fillerSentence(random)
    : phrase(random, random.pick(sentences), noteSlots(random));
  const isEnd = random.isChance(0.6);
  const instruction = phrase(
    random,
    `[Add "{added}" at the ${isEnd ? "end" : "beginning"}|${isEnd ? "End" : "Begin"} with "{added}"|Put the sentence "{added}" ${isEnd ? "last" : "first"}]`,
    { added },
  );
  return { text: parts.join(" "), instruction, result: (isEnd ? [...parts, added] : [added, ...parts]).join(" ") };
}

function swapSentences(random: Random): TextEdit {
  const { parts } = makeNote(random);
  const swapped = [parts[1] as string, parts[0] as string, ...parts.slice(2)];
  return {
    text: parts.join(" "),
    instruction: random.pick(["Swap the first two sentences", "Exchange the first and the second sentence"]),
    result: swapped.join(" "),
  };
}

function editList(random: Random): TextEdit {
  const items = random.sample(nouns, random.int(3, 7));
  const mark = random.pick(["- ", "* ", ""]);
  const write = (list: readonly string[]): string => list.map((item) => mark + item).join(mark === "" ? ", " : "\n");
  const added = random.pick(nouns.filter((noun) => !items.includes(noun)));
  const index = random.int(0, items.length - 1);
  const item = items[index] as string;
  const [wish, list] = random.pick<readonly [string, readonly string[]]>([
    ["[Add {added} to the end of the list|Put {added} last|Append {added}]", [...items, added]],
    ["[Add {added} at the start of the list|Put {added} first]", [added, ...items]],
    ["[Remove {item}|Delete {item} from the list|Take {item} off the list]", items.filter((other) => other !== item)],
    ["[Replace {item} with {added}|Change {item} to {added}]", items.map((other) => (other === item ? added : other))],
    [
      "[Write {item} in capital letters|Put {item} in capitals]",
      items.map((other) => (other === item ? other.toUpperCase() : other)),
    ],
    ["[Move {item} to the end|Make {item} the last item]", [...items.filter((other) => other !== item), item]],
    ["[Move {item} to the start|Make {item} the first item]", [item, ...items.filter((other) => other !== item)]],
  ]);
  return { text: write(items), instruction: phrase(random, wish, { added, item }), result: write(list) };
}

function fixCapital(random: Random): TextEdit {
  const { parts } = makeNote(random);
  const text = parts.map((part) => part.charAt(0).toLowerCase() + part.slice(1)).join(" ");
  const instruction = random.pick([
    "Start each sentence with a capital letter",
    "Fix the capital letters at the start of the sentences",
  ]);
  return { text, instruction, result: parts.map(capitalise).join(" ") };
}

export function editText(random: Random): TextEdit {
  for (;;) {
    const edit = random.weighted<(random: Random) => TextEdit | undefined>([
      [7, replaceWord],
      [2, removeSentence],
      [2, addSentence],
      [1, swapSentences],
      [4, editList],
      [1, fixCapital],
    ])(random);
    if (edit !== undefined && edit.text !== edit.result) return edit;
  }
}
