/**
 * Questions over a given passage of up to some 900 tokens; every answer is copied from it word for word, or it does not
 * say.
 */
import { type Draft, type Exchange, toDraft } from "./chat.js";
import { fillerSentence } from "./filler.js";
import { type Kind, kinds } from "./passage-kinds.js";
import { personRelations } from "./passage-people.js";
import type { Relation } from "./passage-relation.js";
import { capitalise, phrase, typeCasually, withMark } from "./phrase.js";
import type { Random } from "./random.js";

interface Statement {
  readonly entity: string;
  readonly relation: Relation;
  readonly value: string;
  readonly sentence: string;
}

interface Passage {
  readonly text: string;
  readonly statements: readonly Statement[];
  /** Pairs the passage leaves open, as asked for. */
  readonly gaps: readonly (readonly [entity: string, relation: Relation])[];
}

/** Letters of the text, least and most: about four are a token. */
const sizes: readonly (readonly [weight: number, size: readonly [min: number, max: number, maxQuestions: number]])[] = [
  [34, [90, 360, 4]],
  [33, [400, 1150, 7]],
  [33, [1200, 3600, 12]],
];

/** A sentence and the space after it, on average. */
const LETTERS_PER_FACT = 46;

const DOES_NOT_SAY = "The passage does not say.";

/** Distinct things of one kind; people differ in their first names. */
function makeEntities(random: Random, kind: Kind, numEntities: number): string[] {
  const found = new Map<string, string>();
  for (let attempt = 0; found.size < numEntities && attempt < 4 * numEntities; attempt++) {
    const entity = kind.makeEntity(random);
    const key = kind.again(entity) === "it" ? entity : (entity.split(" ")[0] as string);
    // "The fair" beside "the fair of Oslo" could be either.
    const isUnclear = [...found.values()].some(
      (other) => `${entity} `.startsWith(`${other} `) || other.startsWith(`${entity} `),
    );
    if (!found.has(key) && !isUnclear) found.set(key, entity);
  }
  return [...found.values()];
}

function state(
  random: Random,
  kind: Kind,
  entity: string,
  relation: Relation,
  value: string,
  isAgain: boolean,
): Statement {
  const subject = isAgain && random.isChance(0.6) ? kind.again(entity) : entity;
  const spoken = phrase(random, relation.says, { e: subject, v: value });
  // "it's" would be another word; such sentences name the thing.
  const isClear = subject !== "it" || spoken.startsWith("it ");
  const sentence = isClear ? spoken : phrase(random, relation.says, { e: entity, v: value });
  return { entity, relation, value, sentence: capitalise(sentence) };
}

interface Planned {
  readonly entity: string;
  readonly kind: Kind;
  readonly relation: Relation;
}

/** Which things have which relations, in the order of telling: thing by thing, or mixed. */
function plan(random: Random, length: number, isGrouped: boolean): Planned[] {
  const main = random.weighted(kinds);
  const other = random.isChance(0.35) ? random.weighted(kinds) : main;
  const numRelations = random.int(length > 1200 ? 3 : 2, 6);
  const numEntities = Math.max(2, Math.ceil(length / (numRelations * LETTERS_PER_FACT)));
  const groups = [{ kind: main, entities: makeEntities(random, main, numEntities) }];
  if (other.relations !== main.relations) groups.push({ kind: other, entities: makeEntities(random, other, 2) });
  const planned = groups.flatMap(({ kind, entities }) => {
    // Things that have the same relations can be mixed up: that is what makes a question hard.
    const shared = random.isChance(0.7) ? random.sample(kind.relations, numRelations) : undefined;
    return entities.flatMap((entity) =>
      (shared ?? random.sample(kind.relations, numRelations)).map((relation) => ({ entity, kind, relation })),
    );
  });
  return isGrouped ? planned : random.sample(planned, planned.length);
}

function makePassage(random: Random, minLength: number, maxLength: number): Passage {
  const length = random.int(minLength, random.pick([Math.round((minLength + maxLength) / 2), maxLength]));
  const isGrouped = random.isChance(0.6);
  const planned = plan(random, length, isGrouped);
  const fillerShare = random.pick([0, 0, 0.15, 0.3]);
  const sentences: string[] = [];
  const statements: Statement[] = [];
  const taken = new Set(planned.map(({ entity }) => entity));
  let textLength = 0;
  for (const { entity, kind, relation } of planned) {
    if (textLength > length && statements.length > 1) break;
    const value = relation.makeValue(random);
    if (taken.has(value) || taken.has(`${relation.name} ${value}`)) continue;
    taken.add(`${relation.name} ${value}`);
    const hasFiller = random.isChance(fillerShare);
    if (hasFiller) sentences.push(fillerSentence(random));
    // A pronoun must follow a sentence about the same thing.
    const isAgain = isGrouped && !hasFiller && statements.at(-1)?.entity === entity;
    const statement = state(random, kind, entity, relation, value, isAgain);
    sentences.push(statement.sentence);
    statements.push(statement);
    textLength += sentences.slice(hasFiller ? -2 : -1).join(" ").length + 1;
  }
  const text = joinSentences(random, sentences);
  return { text, statements, gaps: findGaps(planned, statements) };
}

/** What answers in another's place: who is said to have rooms at an address lives there. */
const answeredBy: Readonly<Record<string, string>> = { home: "street", date: "starts" };

/** Relations of things told of that the passage does not state. */
function findGaps(planned: readonly Planned[], statements: readonly Statement[]): Passage["gaps"] {
  const stated = new Set(statements.map(({ entity, relation }) => `${entity} ${relation.name}`));
  const told = new Map(
    planned
      .filter(({ entity }) => statements.some((statement) => statement.entity === entity))
      .map(({ entity, kind }) => [entity, kind]),
  );
  return [...told].flatMap(([entity, kind]) =>
    kind.relations
      .filter(({ name }) => ![name, answeredBy[name]].some((one) => stated.has(`${entity} ${one}`)))
      .map((relation) => [entity, relation] as const),
  );
}

/** One block, or paragraphs, or now and then a list. */
function joinSentences(random: Random, sentences: readonly string[]): string {
  const style = random.next();
  if (style < 0.12) return sentences.map((sentence) => `- ${sentence}`).join("\n");
  if (style < 0.6 || sentences.length < 6) return sentences.join(" ");
  const perParagraph = random.int(3, 7);
  return sentences
    .map((sentence, index) => (index === 0 ? "" : index % perParagraph === 0 ? "\n\n" : " ") + sentence)
    .join("");
}

/** People may be asked for by their first names, which differ within a passage. */
const isPerson = ({ relation }: Statement): boolean => personRelations.includes(relation);

function ask(random: Random, { statements, gaps }: Passage, numQuestions: number): Exchange[] {
  return random.sample(statements, numQuestions).map((statement) => {
    if (gaps.length > 0 && random.isChance(0.09)) {
      const [entity, relation] = random.pick(gaps);
      return exchange(random, phrase(random, relation.asks, { e: entity }), DOES_NOT_SAY);
    }
    const { entity, relation, value, sentence } = statement;
    const isBack = relation.asksBack !== undefined && random.isChance(0.22);
    if (isBack) return exchange(random, phrase(random, relation.asksBack as string, { v: value }), entity);
    const asked = isPerson(statement) && random.isChance(0.3) ? (entity.split(" ")[0] as string) : entity;
    const question = phrase(random, relation.asks, { e: asked });
    if (!sentence.includes(asked) || !random.isChance(0.16)) return exchange(random, question, value);
    const wish = random.pick(["Answer in a full sentence.", "Give the whole sentence.", "Quote the sentence."]);
    return exchange(random, `${question} ${wish}`, sentence);
  });
}

function exchange(random: Random, question: string, answer: string): Exchange {
  return { question: typeCasually(random, withMark(capitalise(question))), answer, check: { kind: "phrase" } };
}

const systemFrames =
  "[Answer from this passage|Use this text to answer|Answer with words from the passage|Here is some information|Context|Answer the user's questions from this text. If it does not say, say so][:\n|:\n\n]{passage}";

const userFrames = [
  "{passage}[\n|\n\n| ][Question: |]{question}",
  "[Read this|Passage|Text|Here is a text|Context][: |:\n]{passage}[\n|\n\n| ]{question}",
  "[Read the passage and answer|Answer the question from the text|Answer with words from the text|Use only the passage to answer].[\n|\n\n]{passage}[\n|\n\n][Question: |]{question}",
  "{question}[\n|\n\n][Text: |Passage: |]{passage}",
  "[Answer this question about the text below: |]{question}\n\n{passage}",
] as const;

/** A chat over one passage with several questions. */
export function makePassageChat(random: Random): Draft {
  const [minLength, maxLength, maxQuestions] = random.weighted(sizes);
  const passage = makePassage(random, minLength, maxLength);
  const exchanges = ask(random, passage, random.int(Math.ceil(maxQuestions / 2), maxQuestions));
  if (random.isChance(0.35)) return toDraft(exchanges, phrase(random, systemFrames, { passage: passage.text }));
  const [first, ...rest] = exchanges as [Exchange, ...Exchange[]];
  const question = phrase(random, random.pick(userFrames), { passage: passage.text, question: first.question });
  return toDraft([{ ...first, question }, ...rest]);
}
