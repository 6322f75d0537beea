/** Small tasks on the user's own words: repeat, pick out, sort, judge. They teach copying, which passages and JSON need. */
import type { Exchange, ExchangeMaker } from "./chat.js";
import { foods } from "./fact-tables.js";
import { joinWithAnd, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { adjectives, cities, colours, inventName, names, objects, rooms, sights } from "./words.js";

function anyWord(random: Random): string {
  const roll = random.next();
  if (roll < 0.3) return random.pick(objects);
  if (roll < 0.5) return random.pick(names);
  if (roll < 0.6) return random.pick(cities);
  if (roll < 0.75) return random.pick(colours);
  if (roll < 0.9) return inventName(random.next);
  return String(random.int(0, 9999));
}

function makeRepeat(random: Random): Exchange {
  const words = Array.from({ length: random.int(1, 8) }, () => anyWord(random));
  const text = random.isChance(0.5) ? words.join(" ") : makeSentence(random);
  return {
    question: phrase(random, "[Repeat|Repeat after me|Say|Please say|Copy this|Write this again]: {text}", { text }),
    answer: text,
  };
}

function makeSentence(random: Random): string {
  return phrase(
    random,
    "[{name}|The {adjective} {object}|The {object}|{name}'s {object}] [is in the {room}|is near the {place}|was lost near {city}|stands by the {place}|is very {adjective}].",
    {
      name: random.pick(names),
      adjective: random.pick(adjectives),
      object: random.pick(objects),
      room: random.pick(rooms),
      place: random.pick(sights),
      city: random.pick(cities),
    },
  );
}

function makePick(random: Random): Exchange {
  const words = random.sample(objects, random.int(3, 6));
  const index = random.int(0, words.length - 1);
  const places = ["first", "second", "third", "fourth", "fifth", "sixth"];
  const isLast = index === words.length - 1 && random.isChance(0.6);
  const question = phrase(
    random,
    "[What is the {place} word|Which word is {place}|Tell me the {place} word]: {words}?",
    {
      place: isLast ? "last" : (places[index] ?? ""),
      words: words.join(", "),
    },
  );
  return { question, answer: words[index] ?? "" };
}

function makeSort(random: Random): Exchange {
  const isNumbers = random.isChance(0.5);
  if (isNumbers) {
    const numbers = random.sample(
      Array.from({ length: 30 }, (_, index) => index + 1),
      random.int(3, 5),
    );
    const sorted = [...numbers].sort((a, b) => a - b);
    return {
      question: phrase(random, "[Sort|Sort these numbers|Put these numbers in order]: {list}", {
        list: numbers.join(", "),
      }),
      answer: sorted.join(", "),
    };
  }
  const items = random.sample(foods, random.int(2, 4)).map((food) => food[1]);
  return {
    question: phrase(random, "[Make a sentence with|Write a sentence with|Use these words in a sentence]: {list}", {
      list: items.join(", "),
    }),
    answer: `I bought ${joinWithAnd(items)} at the market.`,
  };
}

function makeJudgement(random: Random): Exchange {
  const slots = { name: random.pick(names), object: random.pick(objects), place: random.pick(sights) };
  const isHappy = random.isChance(0.5);
  const sentence = isHappy
    ? phrase(
        random,
        "[{name} laughed with joy|I love my new {object}|We had a wonderful day at the {place}|{name} won the first prize|The {place} was beautiful]",
        slots,
      )
    : phrase(
        random,
        "[{name} cried all night|I lost my {object}|It rained all day at the {place}|{name} broke the {object}|The {place} was dirty and cold]",
        slots,
      );
  return {
    question: phrase(
      random,
      "[Is this happy or sad|Is this sentence happy or sad|Happy or sad|Say happy or sad]: {sentence}.",
      { sentence },
    ),
    answer: isHappy ? "Happy." : "Sad.",
  };
}

export const makeRewrite: ExchangeMaker = (random) => {
  const roll = random.next();
  if (roll < 0.5) return makeRepeat(random);
  if (roll < 0.65) return makePick(random);
  return roll < 0.8 ? makeSort(random) : makeJudgement(random);
};
