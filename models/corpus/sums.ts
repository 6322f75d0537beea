/** Counting and arithmetic small enough to be learnt by heart. */
import type { Exchange, ExchangeMaker } from "./chat.js";
import { phrase, typeCasually } from "./phrase.js";
import type { Random } from "./random.js";
import { numberWords } from "./words.js";

function numberRange(first: number, last: number): number[] {
  const step = first <= last ? 1 : -1;
  return Array.from({ length: Math.abs(last - first) + 1 }, (_, index) => first + index * step);
}

function makeOperation(random: Random): Exchange {
  const kind = random.pick(["plus", "plus", "plus", "minus", "minus", "times"] as const);
  const limit = kind === "times" ? 10 : random.isChance(0.7) ? 10 : 20;
  const x = random.int(0, limit);
  const y = random.int(0, limit);
  const [a, b] = kind === "minus" && x < y ? [y, x] : [x, y];
  const result = kind === "plus" ? a + b : kind === "minus" ? a - b : a * b;
  const sign = { plus: "+", minus: "-", times: "*" }[kind];
  if (kind !== "times" && result <= 20 && random.isChance(0.15)) {
    const [aWord, bWord] = [numberWords[a] ?? "", numberWords[b] ?? ""];
    const slots = { a: aWord, b: bWord, kind, result: numberWords[result] ?? "" };
    return {
      question: typeCasually(random, phrase(random, "[What is|How much is|Tell me] {a} {kind} {b}?", slots)),
      answer: phrase(random, "{a} {kind} {b} is {result}.", slots).replace(/^./, (char) => char.toUpperCase()),
    };
  }
  const slots = { a: String(a), b: String(b), kind, sign, result: String(result) };
  const question = phrase(
    random,
    "[What is|How much is|Calculate|Work out|Tell me|Can you tell me|] [{a} {kind} {b}|{a} {sign} {b}][?| =|]",
    slots,
  ).trim();
  const hasSign = question.includes(` ${sign} `);
  return {
    question,
    answer: hasSign
      ? phrase(random, "{a} {sign} {b} = {result}", slots)
      : phrase(random, "{a} {kind} {b} is {result}.", slots),
  };
}

function makeCount(random: Random): Exchange {
  const isDown = random.isChance(0.3);
  const low = random.int(0, 12);
  const high = low + random.int(2, 9);
  const [first, last] = isDown ? [high, low] : [random.isChance(0.5) ? 1 : low, high];
  const isInWords = last <= 20 && first <= 20 && random.isChance(0.2);
  const name = (value: number): string => (isInWords ? (numberWords[value] ?? "") : String(value));
  const slots = { first: name(first), last: name(last), words: isInWords ? " in words" : "" };
  const question =
    first === 1 && random.isChance(0.4)
      ? phrase(random, "[Count|Please count|Can you count] to {last}{words}[.|]", slots)
      : phrase(
          random,
          `[Count|Please count|Can you count]${isDown ? "[ down| backwards]" : ""} from {first} to {last}{words}[.|]`,
          slots,
        );
  return { question, answer: numberRange(first, last).map(name).join(", ") };
}

function makeNeighbour(random: Random): Exchange {
  const value = random.int(1, 60);
  const kind = random.int(0, 4);
  if (kind === 0)
    return {
      question: phrase(random, "[What number comes after|Which number comes after|What comes after] {n}?", {
        n: `${value}`,
      }),
      answer: `${value + 1} comes after ${value}.`,
    };
  if (kind === 1)
    return {
      question: phrase(random, "[What number comes before|Which number comes before|What comes before] {n}?", {
        n: `${value}`,
      }),
      answer: `${value - 1} comes before ${value}.`,
    };
  if (kind === 2) {
    const other = value + random.int(1, 20);
    const [a, b] = random.isChance(0.5) ? [value, other] : [other, value];
    return {
      question: phrase(random, "[Which number is bigger|Which is more|What is larger][, |: ]{a} or {b}?", {
        a: `${a}`,
        b: `${b}`,
      }),
      answer: `${other} is bigger than ${value}.`,
    };
  }
  const small = random.int(1, 20);
  if (kind === 3)
    return {
      question: phrase(random, "[What is double|What is twice|Double] {n}?", { n: `${small}` }),
      answer: `Double ${small} is ${small * 2}.`,
    };
  return {
    question: phrase(random, "[What is half of|Tell me half of|Half of] {n}?", { n: `${small * 2}` }),
    answer: `Half of ${small * 2} is ${small}.`,
  };
}

export const makeSum: ExchangeMaker = (random) => {
  const roll = random.next();
  if (roll < 0.5) return makeOperation(random);
  return roll < 0.8 ? makeCount(random) : makeNeighbour(random);
};
