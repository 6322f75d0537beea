/** Word lists changed by a rule or two: an edit without a program around it, where every few tokens are changed. They teach what edits need between copying. */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { anyWord } from "./copy.js";
import { phrase } from "./phrase.js";
import type { Random } from "./random.js";

interface Rule {
  readonly instruction: string;
  /** Of one word of the list: the words in its place. */
  apply(word: string): readonly string[];
}
type RuleMaker = (random: Random, before: string, after: string) => Rule;

const replace: RuleMaker = (random, before, after) => ({
  instruction: phrase(
    random,
    "[Replace {before} with {after}|Change {before} to {after}|Use {after} instead of {before}|Write {after} instead of {before}|Put {after} in place of {before}|Rename {before} to {after}|Make {before} {after}|Use {after} where it says {before}]",
    { before, after },
  ),
  apply: (word) => [word === before ? after : word],
});

const remove: RuleMaker = (random, before) => ({
  instruction: phrase(random, "[Remove {before}|Delete {before}|Leave out {before}|Take out {before}|Drop {before}]", {
    before,
  }),
  apply: (word) => (word === before ? [] : [word]),
});

const insert: RuleMaker = (random, before, after) => {
  const isAfter = random.isChance(0.6);
  const instruction = phrase(
    random,
    isAfter
      ? "[Add {after} after {before}|Put {after} after {before}|Insert {after} below {before}|After {before}, add {after}]"
      : "[Add {after} before {before}|Put {after} before {before}|Insert {after} above {before}|Before {before}, add {after}]",
    { before, after },
  );
  const pair = isAfter ? [before, after] : [after, before];
  return { instruction, apply: (word) => (word === before ? pair : [word]) };
};

const capitals: RuleMaker = (random, before) => ({
  instruction: phrase(random, "[Write {before} in capitals|Put {before} in capital letters]", { before }),
  apply: (word) => [word === before ? before.toUpperCase() : word],
});

const marks = ["", "", '"', "`"] as const;
const separators = [" ", ", ", "\n", "; ", "\n- "] as const;

function makeChange(random: Random): Exchange {
  const words = [...new Set(Array.from({ length: random.int(4, 9) }, () => anyWord(random)))];
  const added = [anyWord(random), anyWord(random)].map((word) => (words.includes(word) ? `${word}s` : word));
  const numRules = random.isChance(0.75) || words.length < 4 ? 1 : 2;
  const mark = random.pick(marks);
  const makers = Array.from({ length: numRules }, () =>
    random.weighted<RuleMaker>([
      [6, replace],
      [2, remove],
      [2, insert],
      [1, capitals],
    ]),
  );
  const quote = (word: string) => mark + word + mark;
  const rules = makers.map((make, index) => make(random, quote(words[index] as string), quote(added[index] as string)));
  // A word that a rule names comes more than once, mostly.
  const numNames = random.int(1, 4);
  const named = words.slice(0, numRules).flatMap((word) => Array<string>(numNames).fill(word));
  const list = random.sample([...words.slice(numRules), ...named], words.length - numRules + named.length).map(quote);
  const result = list.flatMap((word) =>
    rules.reduce<readonly string[]>(
      (parts, rule) => (parts.length === 1 && parts[0] === word ? rule.apply(word) : parts),
      [word],
    ),
  );
  const separator = random.pick(separators);
  const start = separator === "\n- " ? "- " : "";
  const write = (parts: readonly string[]) => start + parts.join(separator);
  const instruction = rules
    .map(({ instruction }, index) =>
      index === 0 ? instruction : instruction.replace(/^[A-Z]/, (c) => c.toLowerCase()),
    )
    .join(" and ");
  const question = phrase(
    random,
    "[{instruction}[:|.]\n{text}|{instruction}: {text}|{text}\n\n{instruction}.|{text}\n{instruction}.]",
    {
      instruction,
      text: write(list),
    },
  );
  return { question, answer: write(result), check: { kind: "exact" } };
}

export const makeChangeChat = (random: Random): Draft =>
  toDraft(Array.from({ length: random.int(1, 3) }, () => makeChange(random)));
