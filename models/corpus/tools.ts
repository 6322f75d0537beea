/**
 * Requests that a model answers by calling offered tools: one call, two, or none where no tool helps. Each value of an
 * argument stands in the request as it has to be given, so that the right call is the only one.
 */
import type { Chat, Tool } from "./chat.js";
import { capitals } from "./fact-tables.js";
import { cities, names } from "./names.js";
import type { Random } from "./random.js";
import { days, hobbies, nouns, rooms } from "./words.js";

interface Wish {
  readonly text: string;
  readonly arguments: Readonly<Record<string, string | number>>;
}

interface Kind {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of each parameter; all are required. */
  readonly parameters: Readonly<Record<string, object>>;
  wish(random: Random): Wish;
}

const string = (description: string): object => ({ type: "string", description });
const integer = (description: string): object => ({ type: "integer", description });
const oneOf = (values: readonly string[]): object => ({ type: "string", enum: values });

const CURRENCIES = ["EUR", "USD", "GBP", "JPY", "CHF"];
const LANGUAGES = ["French", "German", "Spanish", "Italian", "Swedish"];
const VEHICLES = ["car", "train", "bicycle"];
const SENTENCES = ["I am late.", "The meeting is over.", "Please call me back.", "The door is open.", "See you soon."];
const PLACES = ["Blue Spoon", "Old Mill", "Green Garden", "Harbour House", "Red Lantern"];

const two = (random: Random, values: readonly string[]): readonly [string, string] => {
  const [first = "", second = ""] = random.sample(values, 2);
  return [first, second];
};
const padded = (value: number): string => String(value).padStart(2, "0");
const time = (random: Random): string => `${padded(random.int(8, 21))}:${random.pick(["00", "15", "30", "45"])}`;
const date = (random: Random): string => `2027-${padded(random.int(1, 12))}-${padded(random.int(1, 28))}`;

/** Some have a neighbour that is easily confused with them. */
const KINDS: readonly Kind[] = [
  {
    name: "get_weather",
    description: "The weather of a city on a day of this week.",
    parameters: { city: string("name of the city"), day: oneOf(days) },
    wish(random) {
      const [city, day] = [random.pick(cities), random.pick(days)];
      return { text: `What will the weather be in ${city} on ${day}?`, arguments: { city, day } };
    },
  },
  {
    name: "set_timer",
    description: "Starts a timer that rings after some minutes.",
    parameters: { minutes: integer("minutes until it rings"), label: string("name of the timer") },
    wish(random) {
      const [minutes, label] = [random.int(2, 90), random.pick(nouns)];
      return { text: `Start a timer of ${minutes} minutes with the label "${label}".`, arguments: { minutes, label } };
    },
  },
  {
    name: "set_alarm",
    description: "Sets an alarm that rings at a time of day.",
    parameters: { time: string("HH:MM"), label: string("name of the alarm") },
    wish(random) {
      const [at, label] = [time(random), random.pick(nouns)];
      return { text: `Set an alarm for ${at} with the label "${label}".`, arguments: { time: at, label } };
    },
  },
  {
    name: "convert_currency",
    description: "Converts an amount of money at today's rate.",
    parameters: { amount: { type: "number" }, from: oneOf(CURRENCIES), to: oneOf(CURRENCIES) },
    wish(random) {
      const [[from, to], amount] = [two(random, CURRENCIES), random.int(5, 5000)];
      return { text: `How much is ${amount} ${from} in ${to} today?`, arguments: { amount, from, to } };
    },
  },
  {
    name: "add_event",
    description: "Adds an event to the user's calendar.",
    parameters: { title: string("title"), date: string("YYYY-MM-DD"), time: string("HH:MM, when it begins") },
    wish(random) {
      const [title, on, at] = [`Lunch with ${random.pick(names)}`, date(random), time(random)];
      const text = `Put "${title}" into my calendar on ${on} at ${at}.`;
      return { text, arguments: { title, date: on, time: at } };
    },
  },
  {
    name: "send_message",
    description: "Sends a short message to a person's phone.",
    parameters: { to: string("name of the person"), text: string("the message, word for word") },
    wish(random) {
      const [to, text] = [random.pick(names), random.pick(SENTENCES)];
      return { text: `Send a message to ${to}'s phone that says "${text}"`, arguments: { to, text } };
    },
  },
  {
    name: "send_email",
    description: "Sends an e-mail with a subject.",
    parameters: { to: string("name of the person"), subject: string("subject"), text: string("text, word for word") },
    wish(random) {
      const [to, subject, text] = [random.pick(names), random.pick(hobbies), random.pick(SENTENCES)];
      return {
        text: `Send an e-mail to ${to} with the subject "${subject}" and the text "${text}"`,
        arguments: { to, subject, text },
      };
    },
  },
  {
    name: "book_table",
    description: "Books a table in a restaurant for today.",
    parameters: { restaurant: string("its name"), people: integer("number of people"), time: string("HH:MM") },
    wish(random) {
      const [restaurant, people, at] = [random.pick(PLACES), random.int(2, 9), time(random)];
      const text = `Book a table for ${people} people at the restaurant "${restaurant}" for ${at} today.`;
      return { text, arguments: { restaurant, people, time: at } };
    },
  },
  {
    name: "set_light",
    description: "Dims the light of a room.",
    parameters: { room: string("name of the room"), percent: integer("brightness from 0 to 100") },
    wish(random) {
      const [room, percent] = [random.pick(rooms), 5 * random.int(1, 19)];
      return { text: `Dim the light of the ${room} to ${percent} percent.`, arguments: { room, percent } };
    },
  },
  {
    name: "translate",
    description: "Translates a text by a service.",
    parameters: { text: string("the text, word for word"), language: oneOf(LANGUAGES) },
    wish(random) {
      const [text, language] = [random.pick(SENTENCES), random.pick(LANGUAGES)];
      return { text: `Let the service translate "${text}" into ${language}.`, arguments: { text, language } };
    },
  },
  {
    name: "find_route",
    description: "Finds a route between two cities.",
    parameters: { from: string("city"), to: string("city"), by: oneOf(VEHICLES) },
    wish(random) {
      const [[from, to], by] = [two(random, cities), random.pick(VEHICLES)];
      return { text: `Find a route from ${from} to ${to} by ${by}.`, arguments: { from, to, by } };
    },
  },
];

const MOST_DECOYS = 5;

const toolOf = ({ name, description, parameters }: Kind): Tool => ({
  type: "function",
  function: {
    name,
    description,
    parameters: {
      type: "object",
      properties: parameters,
      required: Object.keys(parameters),
      additionalProperties: false,
    },
  },
});

/** Questions that every model can answer by itself. */
function plainQuestion(random: Random): string {
  const [country] = random.pick(capitals);
  return random.pick([
    `What is the capital of ${country}? Answer by yourself.`,
    `Say hello to ${random.pick(names)}.`,
    `Which day comes after ${random.pick(days)}?`,
    `Write one sentence about ${random.pick(hobbies)}.`,
  ]);
}

export function makeToolUse(random: Random): Chat {
  const numCalls = random.weighted<number>([
    [6, 1],
    [2, 2],
    [2, 0],
  ]);
  const offered = random.sample(KINDS, numCalls + random.int(1, MOST_DECOYS));
  const wishes = offered.slice(0, numCalls).map((kind) => ({ name: kind.name, ...kind.wish(random) }));
  const calls = wishes.map(({ name, arguments: own }) => ({ name, arguments: own }));
  const question = numCalls === 0 ? plainQuestion(random) : wishes.map(({ text }) => text).join(" And then: ");
  return {
    family: "tools",
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: numCalls === 0 ? "(an answer without a call)" : JSON.stringify(calls) },
    ],
    check: { kind: "calls", calls },
    tools: random.sample(offered, offered.length).map(toolOf),
  };
}
