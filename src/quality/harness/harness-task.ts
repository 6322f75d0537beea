/** A task of lm-evaluation-harness as a task of an evaluation. */
import { MillraceError } from "../../core/errors.js";
import type { EvalTask } from "../tasks.js";
import { readSplit } from "./documents.js";
import { FieldReader } from "./fields.js";
import { itemMaker } from "./items.js";
import { promptsOf } from "./prompts.js";
import { readTaskFile, taskError } from "./task-file.js";

/** The first `count` documents of each task. Throws file_unreadable, invalid_option and template_failed. */
export function harnessTasks(paths: readonly string[], count: number): EvalTask[] {
  const tasks = paths.map((path) => harnessTask(path, count));
  const twice = tasks.find(({ name }, index) => tasks.findIndex((other) => other.name === name) < index);
  if (twice === undefined) return tasks;
  throw new MillraceError(
    "invalid_option",
    `expected tasks of different names, got ${JSON.stringify(twice.name)} twice`,
  );
}

function harnessTask(path: string, count: number): EvalTask {
  const task = readTaskFile(path);
  const split = task.test_split ?? task.validation_split;
  if (split == null) throw taskError(path, "test_split", "given, unless validation_split is", "nothing");
  const fields = new FieldReader(path, task.doc_to_choice != null);
  const documents = readSplit(task, split, path, fields.numbers).slice(0, count);
  const makeItem = itemMaker(task, fields);
  const prompts = promptsOf(task, documents, fields);
  const chats = documents.map((document, index) => {
    const item = makeItem(document, prompts[index]!);
    const messages = [
      { role: "user" as const, content: item.context },
      { role: "assistant" as const, content: item.expected },
    ];
    return { family: task.task, messages, check: { kind: "none" as const }, item };
  });
  return { name: task.task, chats, isJudged: task.output_type !== "loglikelihood_rolling" };
}
