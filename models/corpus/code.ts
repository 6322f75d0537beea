/** Small functions in TypeScript and Python; the check calls them. */
import { type Check, type Draft, type Exchange, toDraft } from "./chat.js";
import { drawArgument, functionKinds } from "./code-kinds.js";
import type { Constants, FunctionKind, Language } from "./function-kind.js";
import { capitalise, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { identifiers, verbs } from "./words.js";

interface Parameter {
  readonly usual: string;
  readonly name: string;
  readonly type: string;
}

interface Task {
  readonly kind: FunctionKind;
  readonly constants: Constants;
  readonly words: readonly string[];
  readonly parameters: readonly Parameter[];
}

const NUM_CALLS = 5;
const letters = "abdegklmnoprstuvw-_/";

const fillConstants = (template: string, { n, m, t, c }: Constants): string =>
  template.replace(/\{([nmtc])\}/g, (_, name: "n" | "m" | "t" | "c") => String({ n, m, t, c }[name]));

const parametersOf = (kind: FunctionKind): [usual: string, type: string][] =>
  kind.parameters.split(" ").map((parameter) => parameter.split(":") as [string, string]);

function drawTask(random: Random, kind: FunctionKind): Task {
  // Few of something is what texts and lists have, so that constants matter there too.
  const n =
    kind.parameters.includes(":number ") || kind.parameters === "x:number" ? random.int(2, 60) : random.int(1, 12);
  const constants = { n, m: n + random.int(1, 60), t: random.pick(identifiers), c: random.pick([...letters]) };
  const isOwnName = random.isChance(0.6);
  const words = isOwnName
    ? [random.pick(verbs), random.pick(identifiers)]
    : fillConstants(kind.name, constants)
        .replace(/[^a-z0-9 ]/g, "")
        .trim()
        .split(/ +/);
  const isOwnParameters = random.isChance(0.6);
  const chosen = random.sample(identifiers, 2);
  const parameters = parametersOf(kind).map(([usual, type], index) => ({
    usual,
    type,
    name: isOwnParameters ? (chosen[index] as string) : usual,
  }));
  return { kind, constants, words, parameters };
}

const nameIn = (language: Language, words: readonly string[]): string =>
  language === "python"
    ? words.join("_")
    : words.map((word, index) => (index === 0 ? word : capitalise(word))).join("");

function signature(language: Language, { kind, words, parameters }: Task): string {
  const list = parameters.map(({ name, type }) => (language === "python" ? name : `${name}: ${type}`)).join(", ");
  return `${nameIn(language, words)}(${list})${language === "python" ? "" : `: ${kind.returns}`}`;
}

function write(language: Language, task: Task): string {
  const { kind, constants, parameters } = task;
  const indent = language === "python" ? "    " : "  ";
  const named = parameters.reduce(
    (body, { usual, name }) => body.replaceAll(`{${usual}}`, name),
    fillConstants(kind[language], constants),
  );
  const body = named
    .split("\n")
    .map((line) => indent + line.replaceAll("\t", indent))
    .join("\n");
  const head = signature(language, task);
  return language === "python" ? `def ${head}:\n${body}` : `function ${head} {\n${body}\n}`;
}

function checkOf(random: Random, language: Language, task: Task): Check {
  const { kind, constants, words, parameters } = task;
  const calls = Array.from({ length: NUM_CALLS }, () => {
    const args = parameters.map(({ type }) => drawArgument(random, type, constants));
    return { args, expect: (kind.run as (constants: Constants, ...values: unknown[]) => unknown)(constants, ...args) };
  });
  return { kind: "code", language, name: nameIn(language, words), calls };
}

const titles: Readonly<Record<Language, string>> = { typescript: "TypeScript", python: "Python" };

function exchange(random: Random, language: Language, task: Task, question: string): Exchange {
  return { question, answer: write(language, task), check: checkOf(random, language, task) };
}

function ask(random: Random, language: Language, task: Task): string {
  const isUsual = task.parameters.every(({ usual, name }) => usual === name);
  const names = task.parameters.map(({ name }) => `\`${name}\``).join(" and ");
  const slots = {
    title: titles[language],
    name: nameIn(language, task.words),
    head: `\`${signature(language, task)}\``,
    does: fillConstants(task.kind.does, task.constants),
    given: isUsual
      ? ""
      : phrase(random, `[ It takes {names}.| Call the parameter${task.parameters.length > 1 ? "s" : ""} {names}.]`, {
          names,
        }),
  };
  return phrase(
    random,
    "[[Write|Please write|Give me|Can you write|I need] a {title} function [{name}|`{name}`|called {name}] that {does}.{given}|[In {title}, write|Write in {title}:|{title}:] {head}, which {does}.|[Write|Implement] {head} in {title}: it {does}.|{title} function {name}: {does}.{given}]",
    slots,
  );
}

/** One function of a kind. */
export function makeFunction(random: Random, kind: FunctionKind, language: Language): Exchange {
  const task = drawTask(random, kind);
  return exchange(random, language, task, ask(random, language, task));
}

/** A function, and now and then the same one in the other language. */
export function makeCodeChat(random: Random): Draft {
  const exchanges: Exchange[] = [];
  const numTasks = random.pick([1, 1, 2, 3]);
  for (let index = 0; index < numTasks; index++) {
    const task = drawTask(random, random.pick(functionKinds));
    const language = random.pick(["typescript", "python"] as const);
    exchanges.push(exchange(random, language, task, ask(random, language, task)));
    if (random.isChance(0.25)) {
      const other = language === "python" ? "typescript" : "python";
      const question = phrase(random, "[Now|And] [in {title}|the same in {title}|write it in {title}][.|, please.]", {
        title: titles[other],
      });
      exchanges.push(exchange(random, other, task, question));
    }
  }
  return toDraft(exchanges);
}
