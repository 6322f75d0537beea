/** Requests for small JSON values whose fields are all named in the request. */
import type { Exchange, ExchangeMaker } from "./chat.js";
import { animals, foods } from "./fact-tables.js";
import { joinWithAnd, phrase, withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { adjectives, cities, colours, days, hobbies, inventName, jobs, names, objects, surnames } from "./words.js";

type Field = readonly [key: string, value: string | number | boolean | readonly string[]];

/** One line with a space after each colon and comma, as the model is meant to write it. */
function toJson(fields: readonly Field[]): string {
  const format = (value: Field[1]): string =>
    Array.isArray(value) ? `[${value.map((item) => JSON.stringify(item)).join(", ")}]` : JSON.stringify(value);
  return `{${fields.map(([key, value]) => `${JSON.stringify(key)}: ${format(value)}`).join(", ")}}`;
}

const askFor =
  "[Give me|Write|Make|Create|Please write|Can you write|I need|Return|Output] [JSON|a JSON object|some JSON|the JSON] for";

function makePerson(random: Random): Exchange {
  const name = random.isChance(0.2) ? inventName(random.next) : random.pick(names);
  const fullName = random.isChance(0.3) ? `${name} ${random.pick(surnames)}` : name;
  const age = random.int(5, 90);
  const city = random.pick(cities);
  const job = random.pick(jobs);
  const hobby = random.pick(hobbies);
  const optional: readonly (readonly [string, Field])[] = [
    [phrase(random, "[aged {age}|who is {age} years old|of age {age}]", { age: `${age}` }), ["age", age]],
    [phrase(random, "[living in|who lives in|from] {city}", { city }), ["city", city]],
    [phrase(random, "[working as|who works as] {job}", { job: withArticle(job) }), ["job", job]],
    [phrase(random, "[who likes|who loves] {hobby}", { hobby }), ["hobby", hobby]],
  ];
  const numFields = random.int(1, 3);
  const isCommon = random.isChance(0.5);
  const chosen = isCommon ? optional.slice(0, 2) : random.sample(optional, numFields);
  const fields: Field[] = [["name", fullName], ...chosen.map((entry) => entry[1])];
  const question = phrase(random, `${askFor} a [person|person|user|customer] [named|called] {name} {rest}[.|]`, {
    name: fullName,
    rest: joinWithAnd(chosen.map((entry) => entry[0])),
  });
  return { question, answer: toJson(fields) };
}

function makeExtraction(random: Random): Exchange {
  const name = random.isChance(0.3) ? inventName(random.next) : random.pick(names);
  const age = random.int(5, 90);
  const city = random.pick(cities);
  const job = random.pick(jobs);
  const slots = { name, age: `${age}`, city, job: withArticle(job) };
  const [sentence, fields] = random.pick<readonly [string, readonly Field[]]>([
    [
      "{name} is {age} years old and lives in {city}.",
      [
        ["name", name],
        ["age", age],
        ["city", city],
      ],
    ],
    [
      "{name} works as {job} in {city}.",
      [
        ["name", name],
        ["job", job],
        ["city", city],
      ],
    ],
    [
      "{name}, {age}, is {job}.",
      [
        ["name", name],
        ["age", age],
        ["job", job],
      ],
    ],
    [
      "{name} lives in {city}.",
      [
        ["name", name],
        ["city", city],
      ],
    ],
  ]);
  const keys = joinWithAnd(fields.map(([key]) => key));
  const question = phrase(
    random,
    `[Turn this sentence into JSON|Extract JSON from this sentence|Convert this to JSON|Write this as JSON][| with the keys {keys}]: ${sentence}`,
    { ...slots, keys },
  );
  return { question, answer: toJson(fields) };
}

function makeThing(random: Random): Exchange {
  const object = random.pick(objects);
  const colour = random.pick(colours);
  const price = random.int(1, 99);
  const count = random.int(1, 20);
  const day = random.pick(days);
  const animal = random.pick(animals);
  const petName = random.pick(names);
  const food = random.pick(foods);
  const guests = random.sample(names, random.int(2, 4));
  const size = random.pick(adjectives.slice(0, 4));
  const [question, fields] = random.pick<readonly [string, readonly Field[]]>([
    [
      `a {colour} {object} that costs ${price} euros`,
      [
        ["item", object],
        ["colour", colour],
        ["price", price],
      ],
    ],
    [
      `an order of ${count} ${food[1]}`,
      [
        ["item", food[1]],
        ["count", count],
      ],
    ],
    [
      `a ${animal.name} [named|called] ${petName}`,
      [
        ["animal", animal.name],
        ["name", petName],
      ],
    ],
    [
      `a ${size} ${animal.name} [named|called] ${petName}`,
      [
        ["animal", animal.name],
        ["name", petName],
        ["size", size],
      ],
    ],
    [
      `a meeting on ${day} with ${joinWithAnd(guests)}`,
      [
        ["day", day],
        ["guests", guests],
      ],
    ],
    [
      `a ${food[0]} with its colour`,
      [
        ["name", food[0]],
        ["colour", food[3]],
      ],
    ],
    [
      `a {colour} {object}`,
      [
        ["item", object],
        ["colour", colour],
      ],
    ],
  ]);
  return { question: phrase(random, `${askFor} ${question}[.|]`, { object, colour }), answer: toJson(fields) };
}

function makeArray(random: Random): Exchange {
  const fruit = random.sample(foods, random.int(2, 5)).map((food) => food[1]);
  const isNames = random.isChance(0.5);
  const items = isNames ? random.sample(names, random.int(2, 5)) : fruit;
  const slots = { items: joinWithAnd(items) };
  const question = phrase(
    random,
    "[Write|Give me|Make|Create|Return] a JSON [array|list] [with|of] {items}[.|]",
    slots,
  );
  return { question, answer: `[${items.map((item) => JSON.stringify(item)).join(", ")}]` };
}

export const makeJson: ExchangeMaker = (random) => {
  const roll = random.next();
  if (roll < 0.4) return makePerson(random);
  if (roll < 0.65) return makeExtraction(random);
  return roll < 0.88 ? makeThing(random) : makeArray(random);
};
