/** Questions over a short passage; every answer is copied from the passage word for word. */
import type { Message } from "./chat.js";
import { animals, foods } from "./fact-tables.js";
import { phrase, withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import {
  cities,
  colours,
  days,
  hobbies,
  inventName,
  jobs,
  months,
  names,
  objects,
  rooms,
  sights,
  spots,
  traits,
  weathers,
} from "./words.js";

/** One statement of a passage with the questions it answers: [question template, answer]. */
interface Statement {
  readonly sentence: string;
  readonly questions: readonly (readonly [string, string])[];
}

function statePerson(random: Random, name: string): Statement {
  const city = random.isChance(0.15) ? inventName(random.next) : random.pick(cities);
  const job = withArticle(random.pick(jobs));
  const hobby = random.pick(hobbies);
  const animal = random.pick(animals).name;
  const petName = random.isChance(0.3) ? inventName(random.next) : random.pick(names);
  const food = random.pick(foods)[1];
  const colour = random.pick(colours);
  const object = random.pick(objects);
  const age = String(random.int(6, 90));
  const day = random.pick(days);
  const month = random.pick(months);
  const slots = { name, city, job, hobby, animal: withArticle(animal), petName, food, colour, object, age, day, month };
  const options: readonly (readonly [string, ...(readonly [string, string])[]])[] = [
    [
      "{name} [lives|has a house] in {city}.",
      ["[Where does {name} live|In which city does {name} live|What city is {name} in]?", city],
      ["Who [lives in|is in] {city}?", name],
    ],
    [
      "{name} [works as|is] {job}.",
      ["[What is {name}'s job|What does {name} do|What is the job of {name}]?", job],
      ["Who is {job}?", name],
    ],
    [
      "{name} [likes|loves|enjoys] {hobby}.",
      ["[What does {name} like|What does {name} enjoy|What is {name}'s hobby]?", hobby],
      ["Who likes {hobby}?", name],
    ],
    [
      "{name} has {animal} [called|named] {petName}.",
      ["[What is {name}'s pet called|What is the name of {name}'s pet]?", petName],
      ["[What pet does {name} have|Which animal does {name} have]?", withArticle(animal)],
    ],
    [
      "{name} [eats|buys] {food} [every day|every morning].",
      ["[What does {name} eat or buy|What does {name} get every day|Which food does {name} choose]?", food],
    ],
    [
      "{name} [has|owns|bought] a {colour} {object}.",
      ["[What colour is {name}'s {object}|Which colour is the {object} of {name}]?", colour],
      ["[What does {name} have|What does {name} own]?", `a ${colour} ${object}`],
      [`Who has a ${colour} {object}?`, name],
    ],
    [
      "{name} is {age} years old.",
      ["[How old is {name}|What is {name}'s age|What is the age of {name}]?", age],
      ["Who is {age} years old?", name],
    ],
    [
      "{name} [goes to the market|visits a friend|bakes bread] on {day}.",
      ["[When does {name} do that|On which day is {name} busy|On what day does {name} do this]?", day],
    ],
    [
      "{name} was born in {month}.",
      ["[When was {name} born|In which month was {name} born]?", month],
      ["Who was born in {month}?", name],
    ],
  ];
  return fill(random, random.pick(options), slots);
}

function stateThing(random: Random): Statement {
  const object = random.pick(objects);
  const slots = {
    object,
    spot: random.pick(spots),
    room: `in the ${random.pick(rooms)}`,
    owner: random.pick(names),
    colour: random.pick(colours),
    code: String(random.int(100, 9999)),
    place: random.pick(sights),
    town: random.isChance(0.5) ? inventName(random.next) : random.pick(cities),
    hour: String(random.int(1, 12)),
    year: String(random.int(1500, 1999)),
    weather: random.pick(weathers),
    trait: random.pick(traits),
  };
  const options: readonly (readonly [string, ...(readonly [string, string])[]])[] = [
    [
      "The {object} is {spot}.",
      ["[Where is the {object}|Where can I find the {object}|Where did they put the {object}]?", slots.spot],
    ],
    ["The {object} is kept {room}.", ["[Where is the {object}|Where is the {object} kept]?", slots.room]],
    [
      "The {object} belongs to {owner}.",
      ["[Who owns the {object}|Whose {object} is it|Who does the {object} belong to]?", slots.owner],
    ],
    ["The {object} is {colour}.", ["[What colour is the {object}|Which colour is the {object}]?", slots.colour]],
    [
      "The code for the {place} is {code}.",
      ["[What is the code for the {place}|What is the code|Tell me the code of the {place}]?", slots.code],
    ],
    [
      "The {place} of {town} was built in {year}.",
      [
        "[When was the {place} built|In which year was the {place} of {town} built|What year was the {place} built]?",
        slots.year,
      ],
      ["[Where is the {place}|Which town has the {place}]?", slots.town],
    ],
    [
      "The {place} opens at {hour} o'clock.",
      ["[When does the {place} open|At what time does the {place} open]?", `at ${slots.hour} o'clock`],
    ],
    [
      "The weather in {town} is {weather}.",
      ["[How is the weather in {town}|What is the weather like in {town}]?", slots.weather],
    ],
    [
      "Everyone says that {owner} is {trait}.",
      ["[What does everyone say about {owner}|What is {owner} like]?", slots.trait],
    ],
  ];
  return fill(random, random.pick(options), slots);
}

function fill(
  random: Random,
  option: readonly [string, ...(readonly [string, string])[]],
  slots: Readonly<Record<string, string>>,
): Statement {
  const [sentence, ...questions] = option;
  return {
    sentence: phrase(random, sentence, slots),
    questions: questions.map(([question, answer]) => [phrase(random, question, slots), answer] as const),
  };
}

/** Statements never share a subject, so that each question has one answer. */
function stateAll(random: Random, numStatements: number): Statement[] {
  const people = random
    .sample(names, numStatements)
    .map((name) => (random.isChance(0.2) ? inventName(random.next) : name));
  const statements: Statement[] = [];
  for (const name of people) {
    const statement = random.isChance(0.65) ? statePerson(random, name) : stateThing(random);
    const isClash = statements.some((other) =>
      statement.questions.some(([question, answer]) =>
        other.questions.some(([otherQuestion, otherAnswer]) => question === otherQuestion || answer === otherAnswer),
      ),
    );
    if (!isClash) statements.push(statement);
  }
  return statements;
}

const systemFrames = [
  "[Answer from this passage|Use this text to answer|Answer with words from the passage|Here is some information|Context]:\n{passage}",
  "You are a helpful assistant. [Answer from this text|Use only this text]: {passage}",
] as const;

const userFrames = [
  "{passage}\n[Question: |]{question}",
  "[Read this|Passage|Text|Here is a text]: {passage}\n{question}",
  "{passage} {question}",
  "[Read the passage and answer|Answer the question from the text].\n{passage}\n[Question: |]{question}",
] as const;

/** A chat over one passage with one to three questions. */
export function makePassageChat(random: Random): Message[] {
  const numStatements = random.isChance(0.08) ? random.int(8, 20) : random.int(2, 6);
  const statements = stateAll(random, numStatements);
  const passage = statements.map((statement) => statement.sentence).join(" ");
  const asked = random.sample(statements, random.pick([1, 1, 1, 2, 3]));
  const isInSystem = random.isChance(0.35);
  const messages: Message[] = [];
  if (isInSystem) messages.push({ role: "system", content: phrase(random, random.pick(systemFrames), { passage }) });
  for (const [index, statement] of asked.entries()) {
    const [question, answer] = random.pick(statement.questions);
    const isWholeSentence = random.isChance(0.12);
    const wording = isWholeSentence ? `${question} Answer in a full sentence.` : question;
    const isFirstInUser = index === 0 && !isInSystem;
    const content = isFirstInUser ? phrase(random, random.pick(userFrames), { passage, question: wording }) : wording;
    messages.push(
      { role: "user", content },
      { role: "assistant", content: isWholeSentence ? statement.sentence : answer },
    );
  }
  return messages;
}
