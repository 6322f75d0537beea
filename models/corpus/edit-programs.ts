/**
 * Small programs and configuration files with parts that vary, for edits. Each is lines, and knows what in it can be
 * changed.
 */
import { type EditLanguage, type Pattern, patterns } from "./edit-patterns.js";
import { inventName } from "./names.js";
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { adjectives, colours, identifiers, nouns, verbs } from "./words.js";

export interface Program {
  readonly language: EditLanguage;
  readonly lines: readonly string[];
  /** Names that may be renamed: each stands in the program as a whole word. */
  readonly names: readonly string[];
  /** Names of functions with their parameters as written, for adding one. */
  readonly signature?: { readonly name: string; readonly parameters: readonly string[] };
  /** Number literals that stand in the program once: `makeProgram` leaves out the others. */
  readonly numbers: readonly string[];
  /** Texts in quotes that stand in the program once, without the quotes; as with numbers. */
  readonly texts: readonly string[];
  /** Lines that can go, move or be followed by another, by index. */
  readonly freeLines: readonly number[];
}

type Slots = Record<string, string>;

const snake = (words: readonly string[]): string => words.join("_");
const camel = (words: readonly string[]): string =>
  words.map((word, index) => (index === 0 ? word : capitalise(word))).join("");

function drawSlots(random: Random, isSnake: boolean): Slots {
  const join = isSnake ? snake : camel;
  const [a, b, c, d, e] = random.sample(identifiers, 5) as [string, string, string, string, string];
  const [v, w, x] = random.sample(verbs, 3) as [string, string, string];
  const numbers = random.sample(
    Array.from({ length: 180 }, (_, index) => index + 3),
    4,
  );
  const text = (): string =>
    random.pick([
      `${capitalise(random.pick(verbs))} the ${random.pick(adjectives)} ${random.pick(nouns)}`,
      `${random.pick(colours)} ${random.pick(nouns)}`,
      inventName(random),
      `no ${random.pick(nouns)} here`,
      random.pick(nouns),
    ]);
  const [t, u] = [text(), text()];
  return {
    a,
    b,
    c,
    d,
    e,
    v,
    w,
    x,
    t,
    u: t === u ? `${u} ${a}` : u,
    A: capitalise(a),
    B: capitalise(b),
    C: a.toUpperCase(),
    f: join([v, a]),
    g: join([w, b]),
    h: join([x, c]),
    s: join([a, b]),
    k: join([c, d]),
    n: String(numbers[0]),
    m: String(numbers[1]),
    o: String(numbers[2]),
    p: String(numbers[3]),
  };
}

/** The letters of the slots a pattern names, filled. */
const values = (letters: string | undefined, slots: Slots): string[] =>
  (letters ?? "")
    .split(" ")
    .filter((letter) => letter !== "")
    .map((letter) => slots[letter] as string);

/** A number where it stands alone or before a unit. */
export const wholeNumber = (number: string): RegExp => new RegExp(`(?<![\\w.])${number}(?!\\d)`, "g");

const countOf = (text: string, part: string): number => text.split(part).length - 1;

function fillPattern(random: Random, pattern: Pattern): Program {
  const isSnake = pattern.language === "python" || (pattern.language !== "ts" && random.isChance(0.5));
  const slots = drawSlots(random, isSnake);
  const text = pattern.text.replace(/\{(\w)\}/g, (_, letter: string) => slots[letter] as string);
  const signature = pattern.signature?.replace(/\b([a-z])\b/g, (letter) => slots[letter] as string);
  const open = signature?.indexOf("(") ?? -1;
  return {
    language: pattern.language,
    lines: text.split("\n"),
    names: values(pattern.names, slots),
    numbers: values(pattern.numbers, slots),
    texts: values(pattern.texts, slots),
    freeLines: (pattern.free ?? "")
      .split(" ")
      .filter((index) => index !== "")
      .map(Number),
    ...(signature === undefined
      ? {}
      : { signature: { name: signature.slice(0, open), parameters: signature.slice(open + 1, -1).split(", ") } }),
  };
}

/** One file of both, with empty lines between. */
function join(first: Program, second: Program): Program {
  const gap = first.language === "python" ? ["", ""] : [""];
  const start = first.lines.length + gap.length;
  const signature = second.signature ?? first.signature;
  return {
    language: first.language,
    lines: [...first.lines, ...gap, ...second.lines],
    names: [...new Set([...first.names, ...second.names])],
    numbers: [...first.numbers, ...second.numbers],
    texts: [...first.texts, ...second.texts],
    freeLines: [...first.freeLines, ...second.freeLines.map((index) => start + index)],
    ...(signature === undefined ? {} : { signature }),
  };
}

/** A program of one pattern, or of two or three in one file. */
export function makeProgram(random: Random): Program {
  const first = random.pick(patterns);
  let program = fillPattern(random, first);
  const isCode = first.language === "ts" || first.language === "python";
  const numMore = isCode ? random.pick([0, 0, 0, 1, 1, 2]) : 0;
  for (let index = 0; index < numMore; index++) {
    const next = random.pick(patterns.filter(({ language }) => language === first.language));
    program = join(program, fillPattern(random, next));
  }
  const text = program.lines.join("\n");
  return {
    ...program,
    numbers: program.numbers.filter((number) => text.match(wholeNumber(number))?.length === 1),
    texts: program.texts.filter((part) => countOf(text, `"${part}"`) === 1),
  };
}

/** A name that fits the language and is in no program by chance. */
export function makeIdentifier(random: Random, language: EditLanguage): string {
  const words = [random.pick(random.isChance(0.5) ? verbs : adjectives), random.pick(identifiers)];
  if (random.isChance(0.35)) return random.pick(identifiers);
  return language === "python" || language === "yaml" || language === "sh" ? snake(words) : camel(words);
}

/** A line of its own that can follow a free line. */
export function makeLine(random: Random, { language }: Program, indent: string): string {
  const slots = { a: random.pick(identifiers), v: random.pick(verbs), n: String(random.int(1, 99)) };
  const templates: Readonly<Record<EditLanguage, string>> = {
    ts: '[console.log("{a}");|const {a} = {n};|{v}({n});|// {v} the {a}]',
    python: '[print("{a}")|{a} = {n}|{v}({n})|# {v} the {a}]',
    json: '"{a}": {n},',
    html: "[<p>{a}</p>|<b>{v} {a}</b>|<hr>]",
    css: "[padding: {n}px;|border: {n}px;|color: {a};]",
    sh: "[echo {a}|rm -f {a}.txt|cd {a}]",
    yaml: "[{a}: {n}|{v}_{a}: true]",
  };
  return indent + phrase(random, templates[language], slots);
}
