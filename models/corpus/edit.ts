/** Edits of a small program or text given in full; the answer is the whole of it, changed, and nothing else. */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import type { EditLanguage } from "./edit-patterns.js";
import { makeIdentifier, makeLine, makeProgram, type Program, wholeNumber } from "./edit-programs.js";
import { editText } from "./edit-texts.js";
import { phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { colours, identifiers, nouns } from "./words.js";

/** An instruction and the text after it; undefined where the program has nothing to change this way. */
interface Edit {
  readonly instruction: string;
  readonly result: string;
}
type Editor = (random: Random, program: Program) => Edit | undefined;

const wholeWord = (name: string): RegExp => new RegExp(`(?<![\\w$])${name}(?![\\w])`, "g");
const joinLines = (lines: readonly string[]): string => lines.join("\n");

const rename: Editor = (random, { lines, names, language }) => {
  if (names.length === 0) return undefined;
  const before = random.pick(names);
  const after = makeIdentifier(random, language);
  const text = joinLines(lines);
  if (wholeWord(after).test(text)) return undefined;
  const slots = { before, after };
  const instruction = phrase(
    random,
    "[Rename `{before}` to `{after}`|Change the name `{before}` to `{after}`|Call `{before}` `{after}` instead|Replace the name `{before}` with `{after}`|`{before}` should be called `{after}`]",
    slots,
  );
  return { instruction, result: text.replace(wholeWord(before), after) };
};

const changeNumber: Editor = (random, { lines, numbers }) => {
  if (numbers.length === 0) return undefined;
  const before = random.pick(numbers);
  const after = String(random.pick([random.int(1, 99), random.int(100, 9999)]));
  if (before === after) return undefined;
  const instruction = phrase(
    random,
    "[Change {before} to {after}|Change the number {before} to {after}|Replace {before} with {after}|Use {after} instead of {before}|Set {after} where it says {before}|Make {before} {after}]",
    { before, after },
  );
  return { instruction, result: joinLines(lines).replace(wholeNumber(before), after) };
};

const changeText: Editor = (random, { lines, texts }) => {
  if (texts.length === 0) return undefined;
  const before = random.pick(texts);
  const after = phrase(random, "[{noun}|the {colour} {noun}|{noun} not found|Hello, {noun}!|{noun} and {other}]", {
    noun: random.pick(nouns),
    other: random.pick(nouns),
    colour: random.pick(colours),
  });
  const instruction = phrase(
    random,
    '[Change the text "{before}" to "{after}"|Replace "{before}" with "{after}"|Let the string "{before}" say "{after}"|Use the text "{after}" instead of "{before}"|Change "{before}" to "{after}"]',
    { before, after },
  );
  return { instruction, result: joinLines(lines).replace(`"${before}"`, `"${after}"`) };
};

/** A line as an instruction quotes it; undefined where another line reads the same. */
function quotable({ lines }: Program, index: number): string | undefined {
  const line = (lines[index] as string).trim();
  return lines.filter((other) => other.trim() === line).length === 1 ? line : undefined;
}

const indentOf = ({ lines }: Program, index: number): string => /^\s*/.exec(lines[index] as string)?.[0] ?? "";

const removeLine: Editor = (random, program) => {
  if (program.freeLines.length === 0) return undefined;
  const index = random.pick(program.freeLines);
  const line = quotable(program, index);
  if (line === undefined) return undefined;
  const instruction = phrase(
    random,
    "[Remove the line `{line}`|Delete the line `{line}`|Remove `{line}`|Take out the line `{line}`|Drop the line `{line}`|Leave out `{line}`|Remove the line that says `{line}`]",
    { line },
  );
  return { instruction, result: joinLines(program.lines.filter((_, other) => other !== index)) };
};

const swapLines: Editor = (random, program) => {
  const [first, second] = random.sample(program.freeLines, 2).sort((a, b) => a - b);
  if (first === undefined || second === undefined) return undefined;
  const [upper, lower] = [quotable(program, first), quotable(program, second)];
  if (upper === undefined || lower === undefined || indentOf(program, first) !== indentOf(program, second))
    return undefined;
  const lines = [...program.lines];
  lines[first] = program.lines[second] as string;
  lines[second] = program.lines[first] as string;
  const instruction = phrase(
    random,
    "[Swap the lines `{upper}` and `{lower}`|Exchange the lines `{upper}` and `{lower}`|Let `{upper}` and `{lower}` change places|Put `{lower}` where `{upper}` is, and the other way round]",
    { upper, lower },
  );
  return { instruction, result: joinLines(lines) };
};

const addLine: Editor = (random, program) => {
  if (program.freeLines.length === 0) return undefined;
  const index = random.pick(program.freeLines);
  const near = quotable(program, index);
  // No statement stands between a table's entries.
  if (near === undefined || (program.language === "python" && near.endsWith(","))) return undefined;
  const indent = indentOf(program, index);
  const added = makeLine(random, program, indent);
  const isAfter = random.isChance(0.6);
  const lines = [...program.lines];
  lines.splice(isAfter ? index + 1 : index, 0, added);
  const instruction = phrase(
    random,
    `[Add the line \`{added}\` ${isAfter ? "after" : "before"} \`{near}\`|Insert \`{added}\` ${isAfter ? "below" : "above"} the line \`{near}\`|${isAfter ? "After" : "Before"} \`{near}\`, add \`{added}\`|Put a line \`{added}\` right ${isAfter ? "after" : "before"} \`{near}\`]`,
    { added: added.trim(), near },
  );
  return { instruction, result: joinLines(lines) };
};

const addParameter: Editor = (random, { lines, language, signature }) => {
  if (signature === undefined) return undefined;
  const name = random.pick(identifiers);
  const text = joinLines(lines);
  if (wholeWord(name).test(text)) return undefined;
  const type =
    language === "ts"
      ? `: ${random.pick(["number", "string", "boolean"])}`
      : random.pick(["", "", `=${random.int(0, 20)}`]);
  const parameter = name + type;
  const inside = signature.parameters.join(", ");
  const isLast = random.isChance(0.8);
  const instruction = phrase(
    random,
    `[Add a parameter \`{parameter}\` to {function}|Give {function} a${isLast ? " last" : " first"} parameter \`{parameter}\`|Add \`{parameter}\` as the ${isLast ? "last" : "first"} parameter of {function}|Let {function} take \`{parameter}\` as its ${isLast ? "last" : "first"} parameter]`,
    { parameter, function: signature.name },
  );
  // Without a word on the place, a parameter comes last.
  const isFirst = instruction.includes("first parameter");
  if (isFirst && parameter.includes("=")) return undefined;
  const grown = isFirst ? `${parameter}, ${inside}` : `${inside}, ${parameter}`;
  const head = [`${signature.name}(`, `${signature.name} = (`].find((start) => text.includes(`${start}${inside})`));
  if (head === undefined) return undefined;
  const result = text.replace(`${head}${inside})`, `${head}${grown})`);
  return { instruction, result };
};

const operators = [" + ", " * ", " / ", " - ", " > ", " < ", " += "] as const;
const operatorChanges: Readonly<Record<(typeof operators)[number], readonly string[]>> = {
  " + ": [" - ", " * "],
  " * ": [" + ", " - ", " / "],
  " / ": [" * ", " + "],
  " - ": [" + ", " * "],
  " > ": [" < ", " >= "],
  " < ": [" > ", " <= "],
  " += ": [" -= ", " *= "],
};

const changeOperator: Editor = (random, { lines }) => {
  const text = joinLines(lines);
  const once = operators.filter((operator) => text.split(operator).length === 2);
  if (once.length === 0) return undefined;
  const before = random.pick(once);
  const after = random.pick(operatorChanges[before]);
  const instruction = phrase(
    random,
    "[Change the operator {before} to {after}|Use {after} instead of {before}|Replace {before} by {after}|Turn the {before} into {after}]",
    {
      before: `\`${before.trim()}\``,
      after: `\`${after.trim()}\``,
    },
  );
  return { instruction, result: text.replace(before, after) };
};

const addComment: Editor = (random, { lines, language }) => {
  if (language !== "ts" && language !== "python" && language !== "sh") return undefined;
  const comment = `${language === "ts" ? "//" : "#"} ${phrase(random, "[TODO: check the {noun}|{noun} and {other}|the {noun} comes first|by the {noun} team]", { noun: random.pick(nouns), other: random.pick(nouns) })}`;
  const instruction = phrase(
    random,
    "[Add the comment `{comment}` at the top|Put the comment `{comment}` first|Start the file with the comment `{comment}`|Write `{comment}` above everything]",
    { comment },
  );
  return { instruction, result: joinLines([comment, ...lines]) };
};

const editors: readonly (readonly [weight: number, editor: Editor])[] = [
  [6, rename],
  [4, changeNumber],
  [4, changeText],
  [3, removeLine],
  [2, swapLines],
  [3, addLine],
  [3, addParameter],
  [2, changeOperator],
  [1, addComment],
];

function editProgram(random: Random, program: Program): Edit {
  for (;;) {
    const edit = random.weighted(editors)(random, program);
    if (edit !== undefined && edit.result !== joinLines(program.lines)) return edit;
  }
}

const languageNames: Readonly<Record<EditLanguage, string>> = {
  ts: "TypeScript code",
  python: "Python code",
  json: "JSON",
  html: "HTML",
  css: "CSS",
  sh: "script",
  yaml: "configuration",
};
const reminders = "[||| Answer with the whole {what}.| Give only the new {what}.| Show the full {what}.]";

function exchange(question: string, result: string): Exchange {
  return { question, answer: result, check: { kind: "exact" } };
}

function makeCodeEdits(random: Random): Draft {
  const program = makeProgram(random);
  const what = languageNames[program.language];
  const { instruction, result } = editProgram(random, program);
  const wish = `${instruction}${random.isChance(0.5) ? ` in this ${what}` : ""}`;
  const body = joinLines(program.lines);
  const code = random.isChance(0.5) ? `\`\`\`${program.language}\n${body}\n\`\`\`` : body;
  const reminder = phrase(random, reminders, { what });
  if (random.isChance(0.15)) {
    const system = phrase(
      random,
      "[Edit the {what} as asked. Answer with the whole {what} only.|You edit {what}. Reply with the changed {what} and nothing else.]",
      { what },
    );
    return toDraft([exchange(`${instruction}.\n\n${code}`, result)], system);
  }
  const question = phrase(
    random,
    "[{wish}{mark}{reminder}\n\n{code}|{code}\n\n{instruction}.{reminder}|{wish}{mark}{reminder}\n{code}|Here is some {what}:\n{code}\n{instruction}.{reminder}]",
    {
      wish,
      instruction,
      reminder,
      code,
      what,
      mark: wish === instruction ? random.pick([".", ":"]) : ":",
    },
  );
  const exchanges = [exchange(question, result)];
  if (random.isChance(0.3)) {
    const next = editAgain(random, program, result);
    if (next !== undefined)
      exchanges.push(
        exchange(
          `${phrase(random, "[Now|Then|Next,|And now|]")} ${next.instruction.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}.`.trim(),
          next.result,
        ),
      );
  }
  return toDraft(exchanges);
}

/** A second edit, of the result of the first: only where what the program knows of itself still holds. */
function editAgain(random: Random, program: Program, text: string): Edit | undefined {
  const names = program.names.filter((name) => wholeWord(name).test(text));
  const numbers = program.numbers.filter((number) => text.match(wholeNumber(number))?.length === 1);
  const texts = program.texts.filter((part) => text.split(`"${part}"`).length === 2);
  const now: Program = { language: program.language, lines: text.split("\n"), names, numbers, texts, freeLines: [] };
  return random.pick([rename, changeNumber, changeText])(random, now);
}

function makeTextEdit(random: Random): Draft {
  const { text, instruction, result } = editText(random);
  const question = phrase(
    random,
    "[{instruction}[.|:]\n\n{text}|{instruction}:\n{text}|{text}\n\n{instruction}.|Text:\n{text}\n{instruction}.|{instruction} in this text:\n{text}]",
    { text, instruction },
  );
  return toDraft([exchange(question, result)]);
}

export const makeEditChat = (random: Random): Draft =>
  random.isChance(0.68) ? makeCodeEdits(random) : makeTextEdit(random);
