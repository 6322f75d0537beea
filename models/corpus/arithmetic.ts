/**
 * Arithmetic: facts up to ten by heart, all else written out digit by digit. Every line holds the digits still to do,
 * so that the next line is the last one without its last digits, and the result so far, so that the answer is only
 * joined.
 */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { firstNames } from "./names.js";
import { phrase, typeCasually } from "./phrase.js";
import type { Random } from "./random.js";
import { nouns, numberWords } from "./words.js";

const toDigits = (value: number, numDigits: number): number[] =>
  [...String(value).padStart(numDigits, "0")].map(Number);

interface Column {
  readonly text: string;
  readonly digit: number;
  readonly carry: number;
}

/** Writes columns from the right; `column` gets both digits and the carry of the column before. */
function columns(
  a: number,
  b: number,
  sign: string,
  column: (x: number, y: number, carry: number) => Column,
): string[] {
  const numDigits = Math.max(String(a).length, String(b).length);
  const [upper, lower] = [toDigits(a, numDigits), toDigits(b, numDigits)];
  const result: number[] = [];
  const lines: string[] = [];
  let carry = 0;
  for (let left = numDigits; left > 0; left--) {
    const done = column(upper[left - 1] as number, lower[left - 1] as number, carry);
    carry = done.carry;
    result.unshift(done.digit);
    if (left === 1 && sign === "+" && carry > 0) result.unshift(carry);
    lines.push(
      `${upper.slice(0, left).join(" ")} ${sign} ${lower.slice(0, left).join(" ")}: ${done.text} -> ${result.join(" ")}`,
    );
  }
  return lines;
}

function addColumn(x: number, y: number, carry: number): Column {
  const sum = x + y + carry;
  const next = Math.floor(sum / 10);
  const terms = carry > 0 ? `${x} + ${y} + ${carry}` : `${x} + ${y}`;
  return { text: `${terms} = ${sum}${next > 0 ? `, carry ${next}` : ""}`, digit: sum % 10, carry: next };
}

function subtractColumn(x: number, y: number, borrow: number): Column {
  const isShort = x < y + borrow;
  const digit = x - y - borrow + (isShort ? 10 : 0);
  const terms = `${isShort ? x + 10 : x} - ${y}${borrow > 0 ? ` - ${borrow}` : ""}`;
  return { text: `${terms} = ${digit}${isShort ? ", borrow 1" : ""}`, digit, carry: isShort ? 1 : 0 };
}

function multiplicationLines(a: number, factor: number): string[] {
  const upper = toDigits(a, 1);
  const result: number[] = [];
  let carry = 0;
  return upper.map((_, index) => {
    const left = upper.length - index;
    const x = upper[left - 1] as number;
    const product = x * factor;
    const sum = product + carry;
    const added = carry > 0 ? `, ${product} + ${carry} = ${sum}` : "";
    carry = Math.floor(sum / 10);
    result.unshift(sum % 10);
    if (left === 1 && carry > 0) result.unshift(carry);
    const carried = left > 1 && carry > 0 ? `, carry ${carry}` : "";
    return `${upper.slice(0, left).join(" ")} * ${factor}: ${x} * ${factor} = ${product}${added}${carried} -> ${result.join(" ")}`;
  });
}

type Operator = "+" | "-" | "*";
const calculate: Readonly<Record<Operator, (a: number, b: number) => number>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
};
const signWords: Readonly<Record<Operator, string>> = { "+": "plus", "-": "minus", "*": "times" };

/** The answer to a sum as written: one line for facts known by heart, steps for the rest. */
function workOut(a: number, operator: Operator, b: number): string {
  const result = calculate[operator](a, b);
  if (Math.max(a, b) <= 10 || (operator !== "*" && Math.max(a, b, result) <= 20))
    return `${a} ${operator} ${b} = ${result}`;
  const lines =
    operator === "*"
      ? multiplicationLines(a, b)
      : columns(a, b, operator, operator === "+" ? addColumn : subtractColumn);
  return `${lines.join("\n")}\n${a} ${operator} ${b} = ${result}`;
}

const upTo = (random: Random): number => random.int(1, random.pick([10, 20, 99, 99, 999, 999, 9999]));

function drawSum(random: Random): readonly [number, Operator, number] {
  const operator = random.pick(["+", "+", "-", "-", "*", "*"] as const);
  if (operator === "*")
    return random.isChance(0.4)
      ? [random.int(0, 10), "*", random.int(0, 10)]
      : [random.int(11, random.pick([99, 999])), "*", random.int(2, 9)];
  const [x, y] = [upTo(random), upTo(random)];
  return operator === "-" && x < y ? [y, "-", x] : [x, operator, y];
}

function makePlainSum(random: Random): Exchange {
  const [a, operator, b] = drawSum(random);
  const sign = random.isChance(0.7) ? operator : signWords[operator];
  const sum = `${a} ${operator === "*" && sign === "*" ? random.pick(["*", "*", "x", "×"]) : sign} ${b}`;
  const question = phrase(
    random,
    "[What is {sum}?|How much is {sum}?|Calculate {sum}.|Work out {sum}.|{sum}|{sum} =|Compute {sum}|Solve: {sum}|Tell me what {sum} is.|{sum}?]",
    { sum },
  );
  return {
    question: typeCasually(random, question),
    answer: workOut(a, operator, b),
    check: { kind: "number", value: calculate[operator](a, b) },
  };
}

function makeChain(random: Random): Exchange {
  const [a, b, c] = [random.int(2, 99), random.int(2, 99), random.int(2, 99)];
  const isMinus = random.isChance(0.3) && a + b >= c;
  const sign = isMinus ? "-" : "+";
  const total = calculate[sign](a + b, c);
  const question = phrase(random, "[What is {sum}?|Calculate {sum}.|Add up: {sum}|{sum} =|{sum}]", {
    sum: `${a} + ${b} ${sign} ${c}`,
  });
  return {
    question,
    answer: `${workOut(a, "+", b)}\n${workOut(a + b, sign, c)}`,
    check: { kind: "number", value: total },
  };
}

const stories: readonly (readonly [operator: Operator, template: string])[] = [
  ["+", "{n} has {a} {things} and [buys|finds|gets] {b} more. How many {things} does {n} have [now|in all]?"],
  [
    "+",
    "There are {a} {things} [in one box|on the table|in the shop] and {b} [in another|on the floor|in the store room]. How many {things} are there[ in all| together|]?",
  ],
  ["+", "{n} [sold|made|counted] {a} {things} on Monday and {b} on Tuesday. How many [in all|together|is that]?"],
  ["-", "{n} has {a} {things} and [gives away|loses|sells] {b}. How many {things} are left?"],
  ["-", "There were {a} {things}. {n} took {b}[ of them|]. How many are left?"],
  ["-", "{n} has {a} {things} and {m} has {b}. How many more does {n} have?"],
  ["*", "There are {a} boxes with {b} {things} each. How many {things} are there?"],
  ["*", "{n} buys {a} {things} for {b} coins each. How many coins is that?"],
];

function makeWordProblem(random: Random): Exchange {
  const [operator, template] = random.pick(stories);
  const max = random.pick([10, 20, 99, 99, 500]);
  let [a, b] =
    operator === "*"
      ? [random.int(2, random.pick([10, 40])), random.int(2, 9)]
      : [random.int(1, max), random.int(1, max)];
  if (operator === "-" && a < b) [a, b] = [b, a];
  const [n, m] = firstNames(random, 2) as [string, string];
  const question = phrase(random, template, {
    n,
    m,
    a: String(a),
    b: String(b),
    things: `${random.pick(nouns.filter((noun) => /[^sxhyf]$/.test(noun)))}s`,
  });
  return { question, answer: workOut(a, operator, b), check: { kind: "number", value: calculate[operator](a, b) } };
}

function makeDivision(random: Random): Exchange {
  const [divisor, quotient] = [random.int(1, 10), random.int(0, 10)];
  const sum = `${divisor * quotient} ${random.pick(["/", "/", "÷", "divided by"])} ${divisor}`;
  const question = phrase(random, "[What is {sum}?|Calculate {sum}.|{sum} =|How much is {sum}?|{sum}]", { sum });
  return {
    question,
    answer: `${divisor * quotient} / ${divisor} = ${quotient}`,
    check: { kind: "number", value: quotient },
  };
}

function makeCount(random: Random): Exchange {
  const isDown = random.isChance(0.3);
  const step = random.pick([1, 1, 1, 2, 5, 10]);
  const low = random.int(0, step === 1 ? 60 : 10) * step;
  const high = low + random.int(2, 9) * step;
  const values = Array.from({ length: (high - low) / step + 1 }, (_, index) =>
    isDown ? high - index * step : low + index * step,
  );
  const isInWords = step === 1 && high <= 20 && random.isChance(0.3);
  const name = (value: number): string => (isInWords ? (numberWords[value] as string) : String(value));
  const slots = {
    first: name(values[0] as number),
    last: name(values.at(-1) as number),
    by: step === 1 ? "" : ` in steps of ${step}`,
    words: isInWords ? " in words" : "",
  };
  const question = phrase(
    random,
    `[Count|Please count|Can you count]${isDown ? "[ down| backwards]" : ""} from {first} to {last}{by}{words}[.|]`,
    slots,
  );
  return { question, answer: values.map(name).join(", "), check: { kind: "exact" } };
}

function makeSmallQuestion(random: Random): Exchange {
  const n = random.int(1, 99);
  const half = random.int(1, 10);
  const other = n + random.pick([1, 2, 10, random.int(1, 60)]);
  const [first, second] = random.isChance(0.5) ? [n, other] : [other, n];
  const [question, value] = random.pick<readonly [string, number]>([
    [`[What number comes after|Which number follows|What comes after] ${n}?`, n + 1],
    [`[What number comes before|Which number is before|What comes before] ${n}?`, n - 1],
    [`[What is double|What is twice|Double] ${half}[?|]`, half * 2],
    [`[What is half of|Half of|Tell me half of] ${half * 2}[?|]`, half],
    [`[Which is more|Which number is bigger|What is larger][, |: ]${first} or ${second}?`, other],
  ]);
  return { question: phrase(random, question), answer: String(value), check: { kind: "number", value } };
}

export const makeArithmeticChat = (random: Random): Draft =>
  toDraft(
    Array.from({ length: random.pick([1, 1, 2, 2, 3, 4]) }, () =>
      random.weighted([
        [12, makePlainSum],
        [3, makeChain],
        [6, makeWordProblem],
        [3, makeDivision],
        [1, makeCount],
        [2, makeSmallQuestion],
      ])(random),
    ),
  );
