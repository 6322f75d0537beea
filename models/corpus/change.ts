/**
 * Word lists changed by a rule or two: an edit without a program around it, where every few tokens are changed. They
 * teach what edits need between copying.
 */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { anyWord } from "./copy.js";
import { phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { nouns } from "./words.js";

interface Rule {
  readonly instruction: string;
  /** The word that the rule is about. */
  readonly named: string;
  /** What stands in its place. */
  readonly replacement: readonly string[];
}
interface Asked {
  readonly before: string;
  readonly after: string;
  /** Around words in the instruction. */
  readonly quote: string;
}
type RuleMaker = (random: Random, asked: Asked) => Rule;

const say = (random: Random, template: string, { before, after, quote }: Asked): string =>
  phrase(random, template, { before: quote + before + quote, after: quote + after + quote });

const replace: RuleMaker = (random, asked) => ({
  instruction: say(
    random,
    "[Replace {before} with {after}|Change {before} to {after}|Use {after} instead of {before}|Write {after} instead of {before}|Put {after} in place of {before}|Rename {before} to {after}|Make {before} {after}|Use {after} where it says {before}]",
    asked,
  ),
  named: asked.before,
  replacement: [asked.after],
});

const remove: RuleMaker = (random, asked) => ({
  instruction: say(
    random,
    "[Remove {before}|Delete {before}|Leave out {before}|Take out {before}|Drop {before}]",
    asked,
  ),
  named: asked.before,
  replacement: [],
});

const insert: RuleMaker = (random, asked) => {
  const isAfter = random.isChance(0.6);
  const instruction = say(
    random,
    isAfter
      ? "[Add {after} after {before}|Put {after} after {before}|Insert {after} below {before}|After {before}, add {after}]"
      : "[Add {after} before {before}|Put {after} before {before}|Insert {after} above {before}|Before {before}, add {after}]",
    asked,
  );
  const replacement = isAfter ? [asked.before, asked.after] : [asked.after, asked.before];
  return { instruction, named: asked.before, replacement };
};

/**
 * How lists are written, and their words in the instruction. A word stands in both as the same token: quoted, or on a
 * line of its own, never after a space here and after a mark there.
 */
const layouts = [
  { mark: '"', separator: ", ", asked: '"' },
  { mark: "`", separator: ", ", asked: "`" },
  { mark: '"', separator: " ", asked: '"' },
  { mark: "`", separator: "\n- ", asked: "`" },
  { mark: "", separator: "\n", asked: '"' },
  { mark: "", separator: "\n", asked: "`" },
] as const;

/** Most lists name a word that stands once, as edits do; some say it again further on. */
type Level = "plain words" | "any words" | "repeated words";

function drawWords(random: Random, level: Level): string[] {
  if (level === "plain words") return random.sample(nouns, random.int(3, 6));
  return [...new Set(Array.from({ length: random.int(4, 9) }, () => anyWord(random)))];
}

/** `rest` in its order with every named word put in, at places of which no two are neighbours. */
function scatter(random: Random, rest: readonly string[], named: readonly string[]): string[] {
  const places = Array.from({ length: rest.length + 1 }, (_, index) => index);
  const chosen = random.sample(places, named.length);
  const placed = new Map(chosen.map((place, index) => [place, named[index] as string]));
  return places.flatMap((place) => [placed.get(place), rest[place]].filter((word) => word !== undefined));
}

function makeChange(random: Random, level: Level): Exchange {
  const words = drawWords(random, level);
  const added = [1, 2].map(() => (level === "plain words" ? random.pick(nouns) : anyWord(random)));
  const numRules = level === "plain words" || words.length < 5 || random.isChance(0.7) ? 1 : 2;
  const { mark, separator, asked } = random.pick(layouts);
  const rules = Array.from({ length: numRules }, (_, index) => {
    const make = random.weighted<RuleMaker>([
      [6, replace],
      [2, remove],
      [2, insert],
    ]);
    const [before, after] = [words[index] as string, added[index] as string];
    return make(random, { before, after: words.includes(after) ? `${after}s` : after, quote: asked });
  });
  const rest = words.slice(numRules);
  const wanted = level === "repeated words" ? random.int(2, 3) : 1;
  const numTimes = Math.min(wanted, Math.floor((rest.length + 1) / numRules));
  const named = words.slice(0, numRules).flatMap((word) => Array<string>(numTimes).fill(word));
  const list = scatter(random, rest, named);
  const result = list.flatMap((word) => rules.find(({ named }) => named === word)?.replacement ?? [word]);
  const start = separator.startsWith("\n") ? separator.slice(1) : "";
  const write = (parts: readonly string[]) => start + parts.map((word) => mark + word + mark).join(separator);
  const instruction = rules
    .map(({ instruction }, index) =>
      index === 0 ? instruction : instruction.replace(/^[A-Z]/, (c) => c.toLowerCase()),
    )
    .join(" and ");
  const question = phrase(random, "[{instruction}[:|.]\n{text}|{text}\n\n{instruction}.|{text}\n{instruction}.]", {
    instruction,
    text: write(list),
  });
  return { question, answer: write(result), check: { kind: "exact" } };
}

/** A few exercises of one level. */
export function makeChangeChat(random: Random): Draft {
  const level = random.weighted<Level>([
    [60, "plain words"],
    [25, "any words"],
    [15, "repeated words"],
  ]);
  return toDraft(Array.from({ length: random.int(1, 3) }, () => makeChange(random, level)));
}
