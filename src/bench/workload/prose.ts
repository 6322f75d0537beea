/**
 * Reproducible text that resembles real text: reports with names and numbers, questions, source code, search results.
 */
import type { Random } from "./random.js";

const NAMES = "Alder,Birch,Cedar,Dunmore,Elmwood,Fenwick,Garnet,Hollin,Ivory,Juniper,Kestrel,Larch".split(",");
const THINGS =
  "pump,turbine,ledger,contract,survey,harvest,bridge,archive,engine,invoice,shipment,reactor,library,schedule,sensor".split(
    ",",
  );
const TRAITS = "steady,early,costly,quiet,remarkable,partial,careful,delayed,modest,uneven,promising,routine".split(
  ",",
);
const ACTIONS = "measured,repaired,approved,rejected,moved,replaced,recorded,tested,counted,sold,opened,closed".split(
  ",",
);
const TIMES = "in March,before noon,after the storm,last winter,during the audit,on the second day,at night".split(",");
const REASONS = [
  "because the old figures could not be trusted",
  "although nobody had asked for it",
  "so that the next team would find everything in order",
  "which surprised the people who had planned it",
  "as the agreement between both towns requires",
  "while the river stood higher than in any year before",
];

function sentence(random: Random): string {
  const name = random.pick(NAMES);
  const count = random.integer(2, 9800);
  const start = `The ${random.pick(TRAITS)} ${random.pick(THINGS)} at ${name}`;
  return random.pick([
    `${start} was ${random.pick(ACTIONS)} ${random.pick(TIMES)}, ${random.pick(REASONS)}.`,
    `${start} cost ${count} crowns and was ${random.pick(ACTIONS)} ${random.pick(TIMES)}.`,
    `In ${name}, ${count} people saw how the ${random.pick(THINGS)} was ${random.pick(ACTIONS)}.`,
    `Nobody at ${name} ${random.pick(ACTIONS)} the ${random.pick(THINGS)}, ${random.pick(REASONS)}.`,
    `Entry ${count}: one ${random.pick(THINGS)}, ${random.pick(TRAITS)}, ${random.pick(ACTIONS)} ${random.pick(TIMES)}.`,
  ]);
}

/** @param numWords exact number of words, separated by blanks; the last sentence may be cut */
export function prose(random: Random, numWords: number): string {
  const words: string[] = [];
  while (words.length < numWords) words.push(...sentence(random).split(" "));
  return words.slice(0, numWords).join(" ");
}

export function question(random: Random): string {
  const [name, thing] = [random.pick(NAMES), random.pick(THINGS)];
  return random.pick([
    `What happened to the ${thing} at ${name}, and why? Answer in a few sentences.`,
    `Write a short letter to the mayor of ${name} about the ${thing}.`,
    `List three things one should check before a ${thing} is ${random.pick(ACTIONS)}, and explain each.`,
    `Explain to a child how a ${thing} works.`,
    `Compare the ${thing} of ${name} with that of ${random.pick(NAMES)}. Which one would you choose?`,
  ]);
}

/** A tool's result: JSON of about this many words. */
export function searchResults(random: Random, numWords: number): string {
  const results: object[] = [];
  for (let left = numWords; left > 0; left -= 24) {
    const id = random.integer(1000, 9999);
    results.push({ id, score: random.integer(1, 99) / 100, text: prose(random, Math.min(18, left)) });
  }
  return JSON.stringify({ tool: "search", results });
}

/** A source file of at least this many characters. */
export function sourceFile(random: Random, numCharacters: number): string {
  const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1);
  let text = "";
  for (let number = 1; text.length < numCharacters; number++) {
    const [thing, action] = [random.pick(THINGS), random.pick(ACTIONS)];
    const limit = random.integer(2, 900);
    text += [
      `/** Counts what was ${action} of a ${thing}. */`,
      `export function ${action}${capital(thing)}${number}(items: ${capital(thing)}[], limit = ${limit}): number {`,
      "  let total = 0;",
      "  for (const item of items) {",
      `    if (item.${random.pick(TRAITS)} && total < limit) total += item.count * ${random.integer(2, 40)};`,
      "  }",
      `  return Math.min(total, ${limit * 2});`,
      "}\n\n",
    ].join("\n");
  }
  return text;
}
