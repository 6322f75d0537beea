/** Questions with one right answer from the fact tables: colours, sounds, opposites, days, capitals, jobs, tools. */
import type { Exchange, ExchangeMaker } from "./chat.js";
import {
  animals,
  capitals,
  colouredThings,
  definitions,
  foods,
  jobDuties,
  opposites,
  toolUses,
} from "./fact-tables.js";
import { capitalise, phrase, type Slots, typeCasually, withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { days, months, seasons } from "./words.js";

function ask(random: Random, question: string, answer: string, slots: Slots): Exchange {
  return {
    question: typeCasually(random, phrase(random, question, slots)),
    answer: capitalise(phrase(random, answer, slots)),
    check: { kind: "phrase" },
  };
}

const makeColour: ExchangeMaker = (random) => {
  if (random.isChance(0.5)) {
    const [thing, colour] = random.pick(colouredThings);
    return ask(
      random,
      "[What colour is|What is the colour of|Tell me the colour of|Which colour is] {thing}?",
      "{thing} is {colour}.",
      {
        thing,
        colour,
      },
    );
  }
  const [food, , category, colour] = random.pick(foods);
  const slots = { food: withArticle(food), category: withArticle(category), colour };
  return random.isChance(0.6)
    ? ask(random, "[What colour is|What is the colour of|Which colour is] {food}?", "{food} is {colour}.", slots)
    : ask(random, "[Is {food} a fruit or a vegetable|What kind of food is {food}]?", "{food} is {category}.", slots);
};

const makeAnimal: ExchangeMaker = (random) => {
  const animal = random.pick(animals);
  const slots = {
    the: withArticle(animal.name),
    animal: animal.name,
    sound: animal.sound,
    kind: withArticle(animal.kind),
    home: animal.home,
    food: animal.food,
    young: withArticle(animal.young),
    legs: animal.numLegs === 0 ? "no" : (["", "", "two", "", "four", "", "six"][animal.numLegs] ?? ""),
  };
  const questions: readonly (readonly [string, string])[] = [
    [
      "[What sound does {the} make|What does {the} say|How does {the} sound|What noise does {the} make]?",
      "{the} {sound}.",
    ],
    [
      "[What does {the} eat|What do you feed {the}|What is the food of {the}|What does {the} like to eat]?",
      "{the} eats {food}.",
    ],
    ["[Where does {the} live|Where can I find {the}|Where is the home of {the}]?", "{the} lives {home}."],
    [
      "[What is a young {animal} called|What do you call a baby {animal}|What is the name of a baby {animal}]?",
      "a young {animal} is called {young}.",
    ],
    ["[How many legs does {the} have|How many legs has {the}|Count the legs of {the}]?", "{the} has {legs} legs."],
    ["[What kind of animal is {the}|Is {the} a mammal or a bird|What is {the}]?", "{the} is {kind}."],
    [
      "[Tell me something about {the}|Tell me about {the}|Describe {the}|What do you know about {the}s].",
      "{the} is {kind}. It lives {home} and eats {food}.",
    ],
  ];
  const [question, answer] = random.pick(questions);
  return ask(random, question.replace("{the}s", "the {animal}"), answer, slots);
};

const makeComparison: ExchangeMaker = (random) => {
  const [first, second] = random.sample(animals, 2);
  if (first === undefined || second === undefined || Math.abs(first.size - second.size) < 4) return makeAnimal(random);
  const [big, small] = first.size > second.size ? [first, second] : [second, first];
  const slots = {
    a: withArticle(first.name),
    b: withArticle(second.name),
    big: withArticle(big.name),
    small: withArticle(small.name),
  };
  return random.isChance(0.6)
    ? ask(
        random,
        "[Which is bigger, {a} or {b}|What is bigger: {a} or {b}|Is {a} bigger than {b}|Who is bigger, {a} or {b}]?",
        "{big} is bigger than {small}.",
        slots,
      )
    : ask(
        random,
        "[Which is smaller, {a} or {b}|What is smaller: {a} or {b}|Is {a} smaller than {b}]?",
        "{small} is smaller than {big}.",
        slots,
      );
};

const makeOpposite: ExchangeMaker = (random) => {
  const pair = random.pick(opposites);
  const [word, opposite] = random.isChance(0.5) ? pair : [pair[1], pair[0]];
  // Two words have two opposites (light, short); only the table's own direction is asked for those.
  const isAmbiguous = opposites.filter((row) => row[0] === word || row[1] === word).length > 1;
  const [asked, expected] = isAmbiguous ? [opposite, word] : [word, opposite];
  return ask(
    random,
    "[What is the opposite of {word}|What is the opposite of the word {word}|Tell me the opposite of {word}|Give me the opposite of {word}|The opposite of {word} is what]?",
    "The opposite of {word} is {opposite}.",
    { word: asked, opposite: expected },
  );
};

const makeCalendar: ExchangeMaker = (random) => {
  const [list, unit] = random.pick([
    [days, "day"],
    [days, "day"],
    [months, "month"],
    [seasons, "season"],
  ] as const);
  const index = random.int(0, list.length - 1);
  const at = (offset: number): string => list[(index + offset + list.length) % list.length] ?? "";
  const slots = { unit, now: at(0), next: at(1), before: at(-1), count: String(list.length) };
  const questions: readonly (readonly [string, string])[] = [
    [
      "[What {unit} comes after {now}|Which {unit} comes after {now}|Which {unit} follows {now}|What is the {unit} after {now}]?",
      "{next} comes after {now}.",
    ],
    [
      "[What {unit} comes before {now}|Which {unit} comes before {now}|What is the {unit} before {now}]?",
      "{before} comes before {now}.",
    ],
    ...(unit === "day"
      ? ([
          ["[Today is {now}. What day is tomorrow|If today is {now}, what day is tomorrow]?", "Tomorrow is {next}."],
          [
            "[Today is {now}. What day was yesterday|If today is {now}, what day was yesterday]?",
            "Yesterday was {before}.",
          ],
          ["How many days are in a week?", "There are seven days in a week."],
        ] as const)
      : []),
    ...(unit === "month" ? ([["How many months are in a year?", "There are twelve months in a year."]] as const) : []),
  ];
  const [question, answer] = random.pick(questions);
  return ask(random, question, answer, slots);
};

const makeKnowledge: ExchangeMaker = (random) => {
  const kind = random.int(0, 3);
  if (kind === 0) {
    const [country, city] = random.pick(capitals);
    return random.isChance(0.7)
      ? ask(
          random,
          "[What is the capital of {country}|Which city is the capital of {country}|Name the capital of {country}|Tell me the capital of {country}]?",
          "The capital of {country} is {city}.",
          { country, city },
        )
      : ask(
          random,
          "[{city} is the capital of which country|Which country has the capital {city}]?",
          "{city} is the capital of {country}.",
          { country, city },
        );
  }
  if (kind === 1) {
    const [job, duty] = random.pick(jobDuties);
    return random.isChance(0.6)
      ? ask(random, "[What does {job} do|What is the job of {job}|What is the work of {job}]?", "{job} {duty}.", {
          job: withArticle(job),
          duty,
        })
      : ask(random, "[Who {duty}|What do you call a person who {duty}]?", "{job} {duty}.", {
          job: withArticle(job),
          duty,
        });
  }
  if (kind === 2) {
    const [tool, use] = random.pick(toolUses);
    const slots = { tool: tool === "scissors" ? "scissors" : withArticle(tool), use };
    return random.isChance(0.6)
      ? ask(
          random,
          "[What do you use {tool} for|What is {tool} for|What can I do with {tool}]?",
          "You use {tool} to {use}.",
          slots,
        )
      : ask(random, "[What do I need to {use}|What can I use to {use}]?", "You can use {tool} to {use}.", slots);
  }
  const [noun, definition] = random.pick(definitions);
  return ask(
    random,
    "[What is {noun}|What does the word {bare} mean|Explain what {noun} is|Define {bare}|Can you tell me what {noun} is]?",
    "{noun} is {definition}.",
    {
      noun: withArticle(noun),
      bare: noun,
      definition,
    },
  );
};

const makers: readonly ExchangeMaker[] = [
  makeColour,
  makeAnimal,
  makeAnimal,
  makeComparison,
  makeOpposite,
  makeCalendar,
  makeKnowledge,
  makeKnowledge,
];

export const makeFact: ExchangeMaker = (random) => random.pick(makers)(random);
