/** Reads a task of lm-evaluation-harness from its file and its documents. */
import { readSplit } from "./documents.js";
import { FieldReader } from "./fields.js";
import { itemMaker, type TextItem } from "./items.js";
import { promptsOf } from "./prompts.js";
import { readTaskFile, taskError } from "./task-file.js";

interface HarnessTask {
  readonly name: string;
  readonly items: readonly TextItem[];
  /** Whether answers are right or wrong. */
  readonly isJudged: boolean;
}

/** The first `count` documents of the task. Throws file_unreadable, invalid_option and template_failed. */
export function readHarnessTask(path: string, count: number): HarnessTask {
  const task = readTaskFile(path);
  const split = task.test_split ?? task.validation_split;
  if (split == null) throw taskError(path, "test_split", "given, unless validation_split is", "nothing");
  const fields = new FieldReader(path, task.doc_to_choice != null);
  const documents = readSplit(task, split, path, fields.numbers).slice(0, count);
  const makeItem = itemMaker(task, fields);
  const prompts = promptsOf(task, documents, fields);
  const items = documents.map((document, index) => makeItem(document, prompts[index]!));
  return { name: task.task, items, isJudged: task.output_type !== "loglikelihood_rolling" };
}
