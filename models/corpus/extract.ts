/**
 * Typed JSON from a paragraph: the request names the fields, the values stand in the text, what is missing becomes
 * null.
 */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { type Domain, domains, type Facet, type Fact, type FieldType, type JsonValue } from "./extract-domains.js";
import { fillerSentence } from "./filler.js";
import { firstName, fullName, town } from "./names.js";
import { capitalise, joinWithAnd, phrase } from "./phrase.js";
import type { Random } from "./random.js";
import { amount, count, time } from "./values.js";
import { colours, days, jobs, nouns } from "./words.js";

/** One line, a space after each colon and comma, as the model is meant to write it. */
function toJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(toJson).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const fields = Object.entries(value).map(([key, field]) => `${JSON.stringify(key)}: ${toJson(field)}`);
  return `{${fields.join(", ")}}`;
}

interface Field {
  readonly key: string;
  readonly facet: Facet;
}

/** The fields of a request, and whatever else the paragraphs of its chat tell. */
interface Form {
  readonly domain: Domain;
  readonly fields: readonly Field[];
  readonly extras: readonly Facet[];
}

function makeForm(random: Random): Form {
  const domain = random.pick(domains);
  const facets = random.sample(domain.facets, random.int(2, domain.facets.length));
  const numFields = Math.min(facets.length, random.pick([2, 3, 3, 4, 4, 5, 5, 6, 7, 8]));
  const isCamel = random.isChance(0.3);
  const taken = new Set<string>();
  const fields = facets.slice(0, numFields).flatMap((facet): Field[] => {
    const snake = random.isChance(0.6) ? (facet.keys[0] as string) : random.pick(facet.keys);
    const key = isCamel ? snake.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) : snake;
    if (taken.has(key)) return [];
    taken.add(key);
    return [{ key, facet }];
  });
  return { domain, fields, extras: facets.slice(numFields) };
}

interface Filled {
  readonly paragraph: string;
  readonly json: { readonly [key: string]: JsonValue };
}

function tell(random: Random, facet: Facet, fact: Fact): string {
  const template = typeof facet.says === "string" ? facet.says : facet.says[fact.value === true ? 0 : 1];
  return capitalise(phrase(random, template, { v: fact.text }));
}

/** "Due date: 14 March" and the like, as forms and mails have it. */
function tellAsLine(facet: Facet, fact: Fact): string {
  const label = capitalise((facet.keys[0] as string).replaceAll("_", " "));
  return `${label}: ${typeof fact.value === "boolean" ? (fact.value ? "yes" : "no") : fact.text}`;
}

function fill(random: Random, { domain, fields, extras }: Form): Filled {
  const json: Record<string, JsonValue> = {};
  const facts: (readonly [Facet, Fact])[] = [];
  for (const { key, facet } of fields) {
    const isMissing = fields.length > 1 && random.isChance(0.06);
    const fact = facet.make(random);
    json[key] = isMissing ? null : fact.value;
    if (!isMissing) facts.push([facet, fact]);
  }
  for (const facet of extras) facts.push([facet, facet.make(random)]);
  const ordered = random.isChance(0.35) ? facts : random.sample(facts, facts.length);
  if (random.isChance(0.15)) {
    const lines = ordered.map(([facet, fact]) => tellAsLine(facet, fact));
    return { paragraph: lines.join("\n"), json };
  }
  const fillerShare = random.pick([0, 0, 0, 0.2]);
  const sentences = ordered.flatMap(([facet, fact]) => {
    const sentence = tell(random, facet, fact);
    return random.isChance(fillerShare) ? [fillerSentence(random), sentence] : [sentence];
  });
  const lead = phrase(random, domain.leads);
  return { paragraph: [lead, ...sentences].filter((sentence) => sentence !== "").join(" "), json };
}

const typeNames: Readonly<Record<FieldType, readonly string[]>> = {
  string: ["string"],
  integer: ["integer", "integer", "int"],
  number: ["number", "number", "float"],
  boolean: ["boolean", "boolean", "bool"],
  "array of strings": ["array of strings", "list of strings", "string[]"],
};
const codeTypes: Readonly<Record<FieldType, string>> = {
  string: "string",
  integer: "number",
  number: "number",
  boolean: "boolean",
  "array of strings": "string[]",
};

/** A JSON Schema of the fields, as clients send it. */
function schemaOf(fields: readonly Field[]): string {
  const properties = fields.map(({ key, facet }): [string, JsonValue] => [
    key,
    facet.type === "array of strings" ? { type: "array", items: { type: "string" } } : { type: facet.type },
  ]);
  return toJson({ type: "object", properties: Object.fromEntries(properties) });
}

function describe(random: Random, fields: readonly Field[]): string {
  const typed = fields.map(({ key, facet }) => [key, random.pick(typeNames[facet.type])] as const);
  const lines = (separator: string, write: (key: string, type: string) => string): string =>
    typed.map(([key, type]) => write(key, type)).join(separator);
  const head = (template: string): string => phrase(random, template);
  return random.weighted<() => string>([
    [
      5,
      () =>
        `${head("[with the fields|with these fields:|with the keys]")} ${lines(", ", (key, type) => `${key} (${type})`)}`,
    ],
    [
      3,
      () =>
        `${head("[with these fields|in this form|with these keys]")}:\n${lines("\n", (key, type) => `- ${key}: ${type}`)}`,
    ],
    [3, () => `${head("[with the fields|with the keys|that has]")} ${joinWithAnd(typed.map(([key]) => key))}`],
    [
      2,
      () => `${head("[in this form|of this shape|like this]")}: {${lines(", ", (key, type) => `"${key}": ${type}`)}}`,
    ],
    [
      1,
      () =>
        `${head("[of this type|as this type]")}: { ${fields.map(({ key, facet }) => `${key}: ${codeTypes[facet.type]} | null`).join("; ")} }`,
    ],
    [1, () => `${head("[with this schema|by this schema|that fits this JSON schema]")}: ${schemaOf(fields)}`],
  ])();
}

const wishes =
  "[Extract the data as JSON|Extract JSON|Return JSON|Read the text and give JSON|Turn the text into a JSON object|Extract these fields as JSON|Give me a JSON object|Write a JSON object|Pull out the facts as JSON|Convert this {domain} to JSON|Extract the {domain} as JSON]";
const reminders =
  "[|Use null where the text does not say.|Missing values are null.|Answer with JSON only.|Only JSON, please.]";

function wishFor(random: Random, { domain, fields }: Form): string {
  const wish = phrase(random, wishes, { domain: random.pick(domain.names) });
  const described = describe(random, fields);
  const reminder = phrase(random, reminders);
  if (!described.includes("\n")) return `${wish} ${described}.${reminder === "" ? "" : ` ${reminder}`}`;
  return `${wish} ${described}${reminder === "" ? "" : `\n${reminder}`}`;
}

function exchange(question: string, value: JsonValue): Exchange {
  return { question, answer: toJson(value), check: { kind: "json" } };
}

const nexts =
  "[And this one|Now this|The next one|Do the same for this|Same for this text|Another one|Next]:[\n| ]{text}";

/** One to three paragraphs under one request, or a second question about the same paragraph. */
function makeForms(random: Random): Draft {
  const form = makeForm(random);
  const wish = wishFor(random, form);
  const first = fill(random, form);
  const numMore = random.pick([0, 0, 1, 2, 3]);
  const more = Array.from({ length: numMore }, () => fill(random, form));
  const followUps = more.map(({ paragraph, json }) => exchange(phrase(random, nexts, { text: paragraph }), json));
  if (numMore === 0 && form.fields.length > 2 && random.isChance(0.35)) followUps.push(askForPart(random, first));
  if (random.isChance(0.25)) {
    return toDraft(
      [exchange(first.paragraph, first.json), ...more.map(({ paragraph, json }) => exchange(paragraph, json))],
      wish,
    );
  }
  const question = phrase(
    random,
    "[{wish}\n\n{text}|{wish}\n{text}|{wish}\nText: {text}|{text}\n\n{wish}|{text}\n{wish}|Text: {text}\n\n{wish}]",
    { wish, text: first.paragraph },
  );
  return toDraft([exchange(question, first.json), ...followUps]);
}

function askForPart(random: Random, { json }: Filled): Exchange {
  const keys = random.sample(Object.keys(json), random.int(1, 2));
  const part = Object.fromEntries(keys.map((key) => [key, json[key] as JsonValue]));
  return exchange(
    phrase(random, "[Only|Now only|Just|Give me only] {keys}[.|, please.]", { keys: joinWithAnd(keys) }),
    part,
  );
}

interface Column {
  readonly key: string;
  readonly type: string;
  readonly make: (random: Random) => JsonValue;
}

/** [how a line tells of one record, its columns] */
const rowKinds: readonly (readonly [template: string, columns: readonly Column[]])[] = [
  [
    "{name} is {age} and lives in {city}.",
    [
      { key: "name", type: "string", make: fullName },
      { key: "age", type: "integer", make: (random) => random.int(9, 90) },
      { key: "city", type: "string", make: town },
    ],
  ],
  [
    "{count} x {item} at {price} each",
    [
      { key: "item", type: "string", make: (random) => random.pick(nouns) },
      { key: "count", type: "integer", make: (random) => count(random, 40) },
      { key: "price", type: "number", make: (random) => Number(amount(random, 90)) },
    ],
  ],
  [
    "{name} works as a {job}.",
    [
      { key: "name", type: "string", make: firstName },
      { key: "job", type: "string", make: (random) => random.pick(jobs) },
    ],
  ],
  [
    "{name} scored {points} points for {city}.",
    [
      { key: "name", type: "string", make: fullName },
      { key: "points", type: "integer", make: (random) => random.int(1, 99) },
      { key: "city", type: "string", make: town },
    ],
  ],
  [
    "{task}: {name}, {hours} hours",
    [
      { key: "task", type: "string", make: (random) => random.pick(nouns) },
      { key: "name", type: "string", make: firstName },
      { key: "hours", type: "integer", make: (random) => random.int(1, 40) },
    ],
  ],
];

/** Several records of one kind, as an array of objects. */
function makeRows(random: Random): Draft {
  const [template, all] = random.pick(rowKinds);
  const chosen = random.sample(all, random.int(2, all.length));
  const records = Array.from({ length: random.int(2, 5) }, () =>
    Object.fromEntries(all.map(({ key, make }) => [key, make(random)])),
  );
  const lines = records.map((record) =>
    phrase(random, template, Object.fromEntries(all.map(({ key }) => [key, String(record[key])]))),
  );
  const answer = records.map((record) => Object.fromEntries(chosen.map(({ key }) => [key, record[key] as JsonValue])));
  const question = phrase(
    random,
    "[Return a JSON array of objects with|Give me a JSON array; each object has|Extract a list of JSON objects with|As a JSON array of objects, please, with] {keys}.\n{text}",
    {
      keys: joinWithAnd(chosen.map(({ key, type }) => `${key} (${type})`)),
      text: lines.join(random.pick(["\n", " ", "\n- "])),
    },
  );
  return toDraft([exchange(question, answer)]);
}

/** [what is asked for, the columns it states] */
const saidKinds: readonly (readonly [template: string, columns: readonly Column[]])[] = [
  [
    "a [person|user|customer] [named|called] {name}[, aged {age},| aged {age}| who is {age}] [living in|from|who lives in] {city}",
    [
      { key: "name", type: "string", make: fullName },
      { key: "age", type: "integer", make: (random) => random.int(5, 90) },
      { key: "city", type: "string", make: town },
    ],
  ],
  [
    "a [person|user] [named|called] {name} [living in|from] {city}",
    [
      { key: "name", type: "string", make: firstName },
      { key: "city", type: "string", make: town },
    ],
  ],
  [
    "a {colour} {item} that costs {price} euros",
    [
      { key: "item", type: "string", make: (random) => random.pick(nouns) },
      { key: "colour", type: "string", make: (random) => random.pick(colours) },
      { key: "price", type: "number", make: (random) => Number(amount(random)) },
    ],
  ],
  [
    "a meeting with {name} on {day} at {time}",
    [
      { key: "name", type: "string", make: fullName },
      { key: "day", type: "string", make: (random) => random.pick(days) },
      { key: "time", type: "string", make: time },
    ],
  ],
];

/** Small objects whose values the request states by itself, without naming fields. */
function makeSaid(random: Random): Draft {
  const [template, columns] = random.pick(saidKinds);
  const values = columns.map(({ key, make }) => [key, make(random)] as const);
  const slots = Object.fromEntries(values.map(([key, value]) => [key, String(value)]));
  const wish = "[Give me|Write|Make|Create|Please write|I need|Return] [JSON|a JSON object|some JSON] for";
  return toDraft([exchange(phrase(random, `${wish} ${template}[.|]`, slots), Object.fromEntries(values))]);
}

export const makeExtractChat = (random: Random): Draft =>
  random.weighted([
    [86, makeForms],
    [10, makeRows],
    [4, makeSaid],
  ])(random);
