/** Tasks of an evaluation: chats of one family whose last answers can be scored. */
import { MillraceError } from "../core/errors.js";
import { optionError } from "../core/option-error.js";
import { readText } from "../core/read-text.js";
import { parseChats, type ScoredChat, scores } from "./check.js";
import { readHarnessTask } from "./harness/harness-task.js";
import type { TextItem } from "./harness/items.js";

export interface EvalChat extends ScoredChat {
  /** Absent: the model gets the chat's prompt, and the chat's check judges the answer. */
  readonly item?: TextItem;
}

export interface EvalTask {
  readonly name: string;
  readonly chats: readonly EvalChat[];
  /** False: no answer is right or wrong, as in the perplexity of texts. */
  readonly isJudged?: boolean;
}

/** Some families have many chats without a right answer. */
const MAX_TRIES_PER_ITEM = 20;

/** The first `count` scorable chats. @param chatAt returns the chat of an index */
export function scorableChats(count: number, chatAt: (index: number) => ScoredChat): ScoredChat[] {
  const chats: ScoredChat[] = [];
  for (let index = 0; chats.length < count && index < count * MAX_TRIES_PER_ITEM; index++) {
    const chat = chatAt(index);
    if (scores(chat.check)) chats.push(chat);
  }
  return chats;
}

/** Throws invalid_option for an unknown task. @param wanted undefined: all */
export function assertKnownTasks(wanted: readonly string[] | undefined, names: readonly string[]): void {
  const unknown = wanted?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw optionError("--tasks", `of ${names.join(", ")}`, unknown);
}

/** Chats whose answers only a judge can compare are a separate task. */
const taskOf = ({ family, check }: ScoredChat): string => (check.kind === "judge" ? `${family}${FOR_JUDGE}` : family);
const FOR_JUDGE = ":judge";

/**
 * The families of a file of chats, `count` chats each. Throws file_unreadable and invalid_option.
 * @param hasJudge whether chats whose answers only a judge can compare count too
 */
export function tasksOfFile(
  path: string,
  wanted: readonly string[] | undefined,
  count: number,
  hasJudge = false,
): EvalTask[] {
  const text = readText(path, "chats");
  const byTask = new Map<string, ScoredChat[]>();
  for (const chat of parseChats(text, path)) {
    const chats = byTask.get(taskOf(chat)) ?? [];
    const counts = scores(chat.check) || (hasJudge && chat.check.kind === "judge");
    if (counts && chats.length < count) chats.push(chat);
    byTask.set(taskOf(chat), chats);
  }
  if (byTask.size === 0) throw new MillraceError("invalid_option", `expected chats in ${path}, got none`);
  assertKnownTasks(wanted, [...byTask.keys()]);
  return [...byTask]
    .filter(([name, chats]) => chats.length > 0 && (wanted === undefined || wanted.includes(name)))
    .map(([name, chats]) => ({ name, chats, isJudged: chats.every(({ check }) => scores(check)) }));
}

/**
 * Tasks of lm-evaluation-harness, with the first `count` documents of each. Throws file_unreadable, invalid_option and
 * template_failed.
 */
export function harnessTasks(paths: readonly string[], count: number): EvalTask[] {
  const tasks = paths.map((path) => readHarnessTask(path, count));
  const twice = tasks.find(({ name }, index) => tasks.findIndex((other) => other.name === name) < index);
  if (twice !== undefined) {
    throw new MillraceError(
      "invalid_option",
      `expected tasks of different names, got ${JSON.stringify(twice.name)} twice`,
    );
  }
  return tasks.map(({ name, items, isJudged }) => ({ name, isJudged, chats: items.map((item) => chatOf(name, item)) }));
}

const chatOf = (family: string, item: TextItem): EvalChat => ({
  family,
  messages: [
    { role: "user", content: item.context },
    { role: "assistant", content: item.expected },
  ],
  check: { kind: "none" },
  item,
});
