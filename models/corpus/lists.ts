/** "List five fruits": as many distinct things as asked for, in the form asked for. */
import type { ExchangeMaker } from "./chat.js";
import { animals, foods } from "./fact-tables.js";
import { cities, names } from "./names.js";
import { joinWithAnd, phrase, typeCasually } from "./phrase.js";
import { colours, days, hobbies, jobs, months, numberWords, objects, seasons, sights } from "./words.js";

const foodsOf = (category: string): readonly string[] =>
  foods.filter((food) => food[2] === category).map((food) => food[1]);

/** [what a prompt calls them, the things] */
export const topics: readonly (readonly [string, readonly string[]])[] = [
  ["fruits", foodsOf("fruit")],
  ["vegetables", foodsOf("vegetable")],
  ["animals", animals.map((animal) => animal.name)],
  ["birds", animals.filter((animal) => animal.kind === "bird").map((animal) => animal.name)],
  ["farm animals", animals.filter((animal) => animal.home === "on a farm").map((animal) => animal.name)],
  ["animals that live in the sea", ["whale", "dolphin", "turtle", "seal", "shark", "crab", "octopus"]],
  ["colours", colours],
  ["jobs", jobs],
  ["hobbies", hobbies],
  ["cities", cities],
  ["first names", names],
  ["places to visit", sights],
  [
    "things in a house",
    objects.filter((object) =>
      [
        "lamp",
        "clock",
        "box",
        "cup",
        "mirror",
        "spoon",
        "candle",
        "pillow",
        "chair",
        "table",
        "bottle",
        "blanket",
        "book",
      ].includes(object),
    ),
  ],
  ["musical instruments", ["drum", "flute", "violin", "piano", "guitar", "trumpet", "harp", "cello"]],
  ["shapes", ["circle", "square", "triangle", "star", "oval", "rectangle"]],
  ["drinks", ["water", "milk", "tea", "coffee", "juice", "lemonade", "cocoa"]],
  ["kinds of weather", ["sun", "rain", "snow", "wind", "fog", "storm", "hail"]],
  ["parts of the body", ["head", "arm", "leg", "hand", "foot", "nose", "ear", "eye", "knee", "mouth"]],
  ["clothes", ["hat", "coat", "shoes", "scarf", "shirt", "socks", "gloves", "dress", "trousers"]],
  ["sports", ["football", "tennis", "swimming", "running", "cycling", "skating", "rowing", "hockey"]],
];

const wholeLists: readonly (readonly [string, readonly string[]])[] = [
  ["days of the week", days],
  ["months of the year", months],
  ["seasons", seasons],
];

export const makeList: ExchangeMaker = (random) => {
  const isWhole = random.isChance(0.12);
  const [topic, things] = random.pick(isWhole ? wholeLists : topics);
  const numItems = isWhole ? things.length : random.int(2, Math.min(7, things.length));
  const count = random.isChance(0.7) ? (numberWords[numItems] ?? "") : String(numItems);
  // A run of the table: what comes next is to be known, where it begins is free.
  const first = random.int(0, things.length - numItems);
  const items = things.slice(first, first + numItems);
  const style = random.pick(["comma", "comma", "numbered", "bullets"] as const);
  const hint =
    style === "comma"
      ? ""
      : style === "numbered"
        ? "[ as a numbered list| in a numbered list]"
        : "[ as bullet points| with bullets]";
  const slots = { count, topic };
  const question = isWhole
    ? phrase(random, `[List|Name|Tell me|Give me|What are] [the|all the] {topic}${hint}[.|]`, slots)
    : phrase(
        random,
        `[List|Name|Give me|Tell me|Please list|Can you list|Can you name|I need|Write down|Think of] {count} {topic}${hint}[.|]`,
        slots,
      );
  const answer =
    style === "comma"
      ? joinWithAnd(items)
          .replace(/^./, (char) => char.toUpperCase())
          .concat(".")
      : items.map((item, index) => (style === "numbered" ? `${index + 1}. ${item}` : `- ${item}`)).join("\n");
  return { question: typeCasually(random, question), answer, check: { kind: "list", numItems, items: things } };
};
