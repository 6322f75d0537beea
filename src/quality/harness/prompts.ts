/**
 * The prompts of a task's documents: description, few-shot examples and question, joined as lm-evaluation-harness joins
 * them.
 */
import { isDeepStrictEqual } from "node:util";
import { type Document, readSplit } from "./documents.js";
import type { FieldReader } from "./fields.js";
import { PythonRandom } from "./python-random.js";
import { type TaskFile, taskError } from "./task-file.js";

/** The harness's default seed. */
const FEWSHOT_SEED = 1234;

/** The prompt of each document, in order: the examples of one depend on the number of draws before it. */
export function promptsOf(task: TaskFile, documents: readonly Document[], fields: FieldReader): string[] {
  const examplesOf = exampleSource(task, fields);
  return documents.map((document) => {
    const description = task.description === "" ? "" : fields.text(document, task.description, "description");
    const examples = examplesOf(document).map((example) => exampleText(task, example, fields));
    const question = fields.text(document, task.doc_to_text, "doc_to_text");
    const prefix = prefixOf(document, task.gen_prefix, fields);
    const delimiter = needsDelimiter(question, prefix) ? task.target_delimiter : "";
    return `${description}${examples.join("")}${question}${delimiter}${prefix}`;
  });
}

/** The examples for each document, drawn in the order of the documents. */
function exampleSource(task: TaskFile, { path, numbers }: FieldReader): (document: Document) => readonly Document[] {
  const count = task.num_fewshot ?? 0;
  if (count === 0) return () => [];
  const { fewshot_config: config, training_split: training, validation_split: validation, test_split: test } = task;
  const split = config?.split ?? task.fewshot_split ?? undefined;
  const from = split ?? (config?.samples ? undefined : (training ?? validation ?? test ?? undefined));
  const pool = from === undefined ? (config?.samples ?? []) : readSplit(task, from, path, numbers);
  // A document must not be its own example.
  const isOwnSplit = split === (test ?? undefined);
  const others = (document: Document, of: readonly Document[]): Document[] =>
    isOwnSplit ? of.filter((example) => !isDeepStrictEqual(example, document)) : [...of];
  const enough = (of: readonly Document[], needed: number): readonly Document[] => {
    if (of.length >= needed) return of;
    throw taskError(
      path,
      "num_fewshot",
      `at most ${Math.max(0, of.length - Number(isOwnSplit))}, as many as there are examples`,
      String(count),
    );
  };
  if (config?.sampler === "first_n") return (document) => enough(others(document, pool), count).slice(0, count);
  const random = new PythonRandom(FEWSHOT_SEED);
  return (document) => {
    const numDrawn = count + Number(isOwnSplit);
    const drawn = others(document, random.sample(enough(pool, numDrawn), numDrawn)).slice(0, count);
    return drawn.length === count ? drawn : random.sample(enough(others(document, pool), count), count);
  };
}

function exampleText(task: TaskFile, example: Document, fields: FieldReader): string {
  const config = task.fewshot_config ?? undefined;
  const question = fields.text(example, config?.doc_to_text ?? task.doc_to_text, "doc_to_text");
  const prefix = prefixOf(example, config?.gen_prefix ?? task.gen_prefix, fields);
  const delimiter = config?.target_delimiter ?? task.target_delimiter;
  const end = config?.fewshot_delimiter ?? task.fewshot_delimiter;
  const answer = answerText(task, example, fields);
  // An empty answer needs no delimiter; the prefix may.
  if (answer === "") return `${question}${needsDelimiter(question, prefix) ? delimiter : ""}${prefix}`;
  const before = prefix === "" || needsDelimiter(question, prefix) ? delimiter : "";
  return `${question}${before}${prefix}${needsDelimiter(prefix, answer) ? " " : ""}${answer}${end}`;
}

function answerText(task: TaskFile, example: Document, fields: FieldReader): string {
  const config = task.fewshot_config ?? undefined;
  const target = fields.target(example, config?.doc_to_target ?? task.doc_to_target);
  const choices = config?.doc_to_choice ?? task.doc_to_choice;
  const answer =
    typeof target === "number" && choices != null
      ? fields.choices(example, choices)[target]
      : typeof target === "object"
        ? target[0]
        : target;
  if (typeof answer === "string") return answer;
  throw taskError(fields.path, "doc_to_target", "a text or the index of a choice for each example", String(answer));
}

const prefixOf = (document: Document, field: string | null | undefined, fields: FieldReader): string =>
  field ? fields.text(document, field, "gen_prefix") : "";

/** Whether neither text has white space where the two meet. */
const needsDelimiter = (before: string, after: string): boolean =>
  before !== "" && after !== "" && !/\s$/.test(before) && !/^\s/.test(after);
