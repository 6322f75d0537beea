/** Sorting short lists, with steps where there are many numbers, and picking the largest or smallest. */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { names } from "./names.js";
import { phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { nouns } from "./words.js";

function distinctNumbers(random: Random, numNumbers: number, max: number): number[] {
  const found = new Set<number>();
  while (found.size < numNumbers) found.add(random.int(0, max));
  return [...found];
}

/** Takes the smallest (or largest) of what is left, one line at a time. */
function selectionSteps(numbers: readonly number[], isDown: boolean): string {
  const rest = [...numbers];
  const sorted: number[] = [];
  const lines: string[] = [];
  while (rest.length > 1) {
    const next = isDown ? Math.max(...rest) : Math.min(...rest);
    lines.push(`${rest.join(", ")}: ${isDown ? "largest" : "smallest"} ${next}`);
    rest.splice(rest.indexOf(next), 1);
    sorted.push(next);
  }
  return `${lines.join("\n")}\nSorted: ${[...sorted, ...rest].join(", ")}`;
}

function makeNumberSort(random: Random): Exchange {
  const hasSteps = random.isChance(0.7);
  const numbers = distinctNumbers(random, hasSteps ? random.int(3, 6) : 3, random.pick([20, 99, 99]));
  const isDown = random.isChance(0.25);
  const slots = {
    list: numbers.join(random.pick([", ", ", ", " "])),
    down: isDown
      ? random.pick([" from largest to smallest", " in descending order", ", largest first"])
      : random.pick(["", "", " from smallest to largest", " in ascending order"]),
  };
  const steps = hasSteps ? random.pick([" Show the steps.", " Step by step.", " Show your work."]) : "";
  const question = phrase(
    random,
    `[Sort these numbers{down}|Sort{down}|Put these numbers in order{down}|Order these numbers{down}]: {list}${steps === "" ? "" : `.${steps}`}`,
    slots,
  );
  const sorted = [...numbers].sort((a, b) => (isDown ? b - a : a - b));
  return { question, answer: hasSteps ? selectionSteps(numbers, isDown) : sorted.join(", "), check: { kind: "exact" } };
}

/** Words whose first letters differ, so that the first letter decides. */
function makeWordSort(random: Random): Exchange {
  const pool = random.isChance(0.7) ? nouns : names.filter((name) => /^[A-Z]/.test(name));
  const found = new Map<string, string>();
  const numWords = random.int(3, 4);
  while (found.size < numWords) {
    const word = random.pick(pool);
    found.set((word[0] as string).toLowerCase(), word);
  }
  const words = random.sample([...found.values()], numWords);
  const question = phrase(
    random,
    "[Sort these words|Sort alphabetically|Put these words in alphabetical order|Sort by the first letter|Order these words from A to Z]:\n{list}",
    { list: words.join("\n") },
  );
  const sorted = [...words].sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1));
  return { question, answer: sorted.join("\n"), check: { kind: "exact" } };
}

function makeExtreme(random: Random): Exchange {
  const numbers = distinctNumbers(random, random.int(2, 4), random.pick([20, 99]));
  const isMax = random.isChance(0.5);
  const question = phrase(
    random,
    "[Which number is the {most}|What is the {most} number|Find the {most} number|Which is {most}][: |? ]{list}",
    {
      most: isMax ? random.pick(["largest", "biggest", "greatest"]) : random.pick(["smallest", "lowest"]),
      list: numbers.join(", "),
    },
  );
  return { question, answer: String(isMax ? Math.max(...numbers) : Math.min(...numbers)), check: { kind: "exact" } };
}

export const makeSortChat = (random: Random): Draft =>
  toDraft(
    Array.from({ length: random.int(1, 4) }, () =>
      random.weighted([
        [6, makeNumberSort],
        [2, makeWordSort],
        [2, makeExtreme],
      ])(random),
    ),
  );
