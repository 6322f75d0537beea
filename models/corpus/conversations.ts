/** Chats of several turns: some that must remember an earlier turn, some that just change the subject. */
import { type Exchange, type ExchangeMaker, type Message, toMessages } from "./chat.js";
import { makeFact } from "./facts.js";
import { makeList } from "./lists.js";
import { phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { makeRewrite } from "./rewrites.js";
import { makeFeeling, makeGreeting, makeIdentity, makeUnknown } from "./small-talk.js";
import { makeSum } from "./sums.js";
import { cities, colours, hobbies, inventName, jobs, names, objects } from "./words.js";

/** [what the user tells, the reply, a later question, its answer] */
const memories: readonly (readonly [string, string, string, string])[] = [
  [
    "[My name is|I am|Hello, I am|Hi, my name is|Hello! My name is] {name}[.|!]",
    "[Nice to meet you, {name}!|Hello, {name}! How can I help you?|Hi {name}! What can I do for you?]",
    "[What is my name|Do you remember my name|Who am I]?",
    "[Your name is {name}.|You are {name}.]",
  ],
  [
    "[I live in|I come from|I am from] {city}.",
    "[{city} is a nice place.|How do you like {city}?|I have heard of {city}.]",
    "[Where do I live|Where am I from|What is my city]?",
    "[You told me about {city}.|{city}.|You said {city}.]",
  ],
  [
    "My favourite colour is {colour}.",
    "[{colour} is a lovely colour.|What a nice colour!]",
    "[What is my favourite colour|Which colour do I like]?",
    "Your favourite colour is {colour}.",
  ],
  [
    "I [have|bought|found] a {colour} {object}.",
    "[A {colour} {object}! How nice.|I would like to see your {object}.]",
    "[What colour is my {object}|Which colour is my {object}]?",
    "Your {object} is {colour}.",
  ],
  [
    "I am {age} years old.",
    "[That is a good age.|Thank you for telling me.]",
    "[How old am I|What is my age]?",
    "You are {age} years old.",
  ],
  [
    "I work as a {job}.",
    "[A {job}! That is a useful job.|How do you like your work?]",
    "[What is my job|What do I do|What is my work]?",
    "You work as a {job}.",
  ],
  [
    "[I like|I love] {hobby}.",
    "[That sounds like fun.|How often do you do it?]",
    "[What do I like|What is my hobby]?",
    "You like {hobby}.",
  ],
  [
    "My [dog|cat|horse|parrot] is called {name}.",
    "[{name} is a good name.|Please say hello to {name} from me.]",
    "What is my pet called?",
    "Your pet is called {name}.",
  ],
  [
    "[Please remember|Remember] the number {number}.",
    "[I will remember it.|All right.]",
    "[What was the number|Which number did I tell you|What number did I say]?",
    "The number was {number}.",
  ],
];

function memorySlots(random: Random): Record<string, string> {
  return {
    name: random.isChance(0.25) ? inventName(random.next) : random.pick(names),
    city: random.isChance(0.15) ? inventName(random.next) : random.pick(cities),
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
  makeSum,
  makeList,
  makeRewrite,
  makeUnknown,
];

function capitaliseFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function makeMemoryChat(random: Random): Message[] {
  const memory = random.pick(memories);
  const slots = memorySlots(random);
  const [told, reply, question, answer] = memory.map((part) => capitaliseFirst(phrase(random, part, slots))) as [
    string,
    string,
    string,
    string,
  ];
  const exchanges: Exchange[] = [{ question: told, answer: reply }];
  const numFillers = random.int(0, 2);
  for (let index = 0; index < numFillers; index++) exchanges.push(random.pick(fillers)(random));
  exchanges.push({ question, answer });
  return exchanges.flatMap(toMessages);
}

/** Two exchanges about the same subject: "And of a cow?" after a question about a fox would need more; a second question does. */
function makeTopicChat(random: Random): Message[] {
  const numTurns = random.isChance(0.06) ? random.int(5, 14) : random.int(2, 4);
  const maker = random.pick(fillers);
  const isOneTopic = random.isChance(0.4);
  return Array.from({ length: numTurns }, () => (isOneTopic ? maker : random.pick(fillers))(random)).flatMap(
    toMessages,
  );
}

export function makeConversation(random: Random): Message[] {
  return random.isChance(0.5) ? makeMemoryChat(random) : makeTopicChat(random);
}
