/** Chats of several turns: some that must remember an earlier turn, some that just change the subject. */
import { type Draft, type Exchange, type ExchangeMaker, toDraft } from "./chat.js";
import { makeCopy } from "./copy.js";
import { makeFact } from "./facts.js";
import { makeList } from "./lists.js";
import { firstName, town } from "./names.js";
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { makeFeeling, makeGreeting, makeIdentity, makeUnknown } from "./small-talk.js";
import { colours, hobbies, jobs, objects } from "./words.js";

/** [what the user tells, the reply, a later question, its answer, the slot the answer must hold] */
const memories: readonly (readonly [string, string, string, string, string])[] = [
  [
    "[My name is|I am|Hello, I am|Hi, my name is|Hello! My name is] {name}[.|!]",
    "[Nice to meet you, {name}!|Hello, {name}! How can I help you?|Hi {name}! What can I do for you?]",
    "[What is my name|Do you remember my name|Who am I]?",
    "[Your name is {name}.|You are {name}.]",
    "name",
  ],
  [
    "[I live in|I come from|I am from] {city}.",
    "[{city} is a nice place.|How do you like {city}?|I have heard of {city}.]",
    "[Where do I live|Where am I from|What is my city]?",
    "[You told me about {city}.|{city}.|You said {city}.]",
    "city",
  ],
  [
    "My favourite colour is {colour}.",
    "[{colour} is a lovely colour.|What a nice colour!]",
    "[What is my favourite colour|Which colour do I like]?",
    "Your favourite colour is {colour}.",
    "colour",
  ],
  [
    "I [have|bought|found] a {colour} {object}.",
    "[A {colour} {object}! How nice.|I would like to see your {object}.]",
    "[What colour is my {object}|Which colour is my {object}]?",
    "Your {object} is {colour}.",
    "colour",
  ],
  [
    "I am {age} years old.",
    "[That is a good age.|Thank you for telling me.]",
    "[How old am I|What is my age]?",
    "You are {age} years old.",
    "age",
  ],
  [
    "I work as a {job}.",
    "[A {job}! That is a useful job.|How do you like your work?]",
    "[What is my job|What do I do|What is my work]?",
    "You work as a {job}.",
    "job",
  ],
  [
    "[I like|I love] {hobby}.",
    "[That sounds like fun.|How often do you do it?]",
    "[What do I like|What is my hobby]?",
    "You like {hobby}.",
    "hobby",
  ],
  [
    "My [dog|cat|horse|parrot] is called {name}.",
    "[{name} is a good name.|Please say hello to {name} from me.]",
    "What is my pet called?",
    "Your pet is called {name}.",
    "name",
  ],
  [
    "[Please remember|Remember] the number {number}.",
    "[I will remember it.|All right.]",
    "[What was the number|Which number did I tell you|What number did I say]?",
    "The number was {number}.",
    "number",
  ],
];

function memorySlots(random: Random): Record<string, string> {
  return {
    name: firstName(random),
    city: town(random),
    colour: random.pick(colours),
    object: random.pick(objects),
    age: String(random.int(6, 90)),
    job: random.pick(jobs.filter((job) => !/^[aeiou]/.test(job))),
    hobby: random.pick(hobbies),
    number: String(random.int(1, 999)),
  };
}

const fillers: readonly ExchangeMaker[] = [
  makeGreeting,
  makeFeeling,
  makeIdentity,
  makeFact,
  makeFact,
  makeList,
  makeCopy,
  makeUnknown,
];

/** Things told, then other talk, then questions about what was told. */
function makeMemoryChat(random: Random): Draft {
  const slots = memorySlots(random);
  const told = random.sample(memories, random.pick([1, 1, 2, 3])).filter(
    // Two memories of one slot would hold the same value.
    (memory, index, all) => all.findIndex((other) => other[4] === memory[4]) === index,
  );
  const write = (part: string): string => capitalise(phrase(random, part, slots));
  const tellings = told.map(([tell, reply]): Exchange => ({ question: write(tell), answer: write(reply) }));
  const talk = Array.from({ length: random.int(0, 3) }, () => random.pick(fillers)(random));
  const questions = random.sample(told, told.length).map(([, , question, answer, slot]): Exchange => {
    return {
      question: write(question),
      answer: write(answer),
      check: { kind: "mentions", words: [slots[slot] as string] },
    };
  });
  return toDraft([...tellings, ...talk, ...questions]);
}

/** Turns about one subject, or a change of subject with each. */
function makeTopicChat(random: Random): Draft {
  const numTurns = random.isChance(0.06) ? random.int(5, 14) : random.int(1, 4);
  const maker = random.pick(fillers);
  const isOneTopic = random.isChance(0.4);
  return toDraft(Array.from({ length: numTurns }, () => (isOneTopic ? maker : random.pick(fillers))(random)));
}

export const makeConversation = (random: Random): Draft =>
  random.isChance(0.5) ? makeMemoryChat(random) : makeTopicChat(random);
