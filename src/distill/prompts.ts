/**
 * Reads the user's prompts from a file of chats or recorded requests, each prompt once, and holds some out of training.
 */
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { readText } from "../core/read-text.js";
import { plainChatOf, recordedRequest } from "../core/recorded-request.js";
import { problemText } from "../core/schema-problem.js";
import { type Message, messageSchema, promptId } from "../quality/ask.js";
import { type Check, checkSchema, problemOfCheck } from "../quality/check.js";

const lineSchema = z.object({
  family: z.string().min(1).optional(),
  messages: z.array(messageSchema).min(1).readonly(),
  check: checkSchema.optional(),
});

export interface Prompt {
  /** A hash of the messages: the same prompt has the same id in every file. */
  readonly id: string;
  readonly family: string | undefined;
  /** The last message is the user's. */
  readonly messages: readonly Message[];
  /** The answer in the file, from another source than the teacher. */
  readonly expected: string | undefined;
  readonly check: Check | undefined;
  /** Line number in the file, from 1. */
  readonly line: number;
}

const HINT =
  'a line is {"messages": [{"role", "content"}, …]}, optionally with "family" and "check"; the last message is the user\'s, or the expected answer';

/**
 * Reads each prompt once, and keeps the first of equal ones. Throws file_unreadable, and invalid_option with the line
 * number.
 */
export function readPrompts(path: string): Prompt[] {
  const text = readText(path, "prompts");
  return parsePrompts(text, path);
}

/** @param source the file's name, for errors */
export function parsePrompts(text: string, source: string): Prompt[] {
  const prompts = new Map<string, Prompt>();
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const prompt = parseLine(line, source, index + 1);
    if (prompt !== undefined && !prompts.has(prompt.id)) prompts.set(prompt.id, prompt);
  }
  if (prompts.size === 0) {
    throw new MillraceError("invalid_option", `expected prompts in ${source}, got none`, { hint: HINT });
  }
  return [...prompts.values()];
}

/** @returns undefined for a recorded request other than a text-only question */
function parseLine(text: string, source: string, line: number): Prompt | undefined {
  const refuse = (problem: string): never => {
    throw new MillraceError("invalid_option", `expected a chat in ${source}, line ${line}, got ${problem}`, {
      hint: HINT,
    });
  };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return refuse(`invalid JSON: ${(cause as Error).message}`);
  }
  const recorded = recordedRequest(value);
  if (recorded !== undefined) {
    const { messages, answer: expected } = plainChatOf(recorded) ?? {};
    if (messages?.at(-1)?.role !== "user") return undefined;
    return { id: promptId(messages), family: undefined, messages, expected, check: undefined, line };
  }
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success) {
    return refuse(`another line (${problemText(parsed.error, value)})`);
  }
  const { family, messages: all, check } = parsed.data;
  const last = all.at(-1)!;
  const messages = last.role === "assistant" ? all.slice(0, -1) : all;
  if (messages.at(-1)?.role !== "user") return refuse("no message of the user at the end");
  const expected = last.role === "assistant" ? last.content : undefined;
  const problem = check === undefined || expected === undefined ? undefined : problemOfCheck(check, expected);
  if (problem !== undefined) return refuse(problem);
  return { id: promptId(messages), family, messages, expected, check, line };
}

/** Depends only on the prompt: held-out prompts stay held out when the file grows. */
export function isHeldOut({ id }: Pick<Prompt, "id">, share: number): boolean {
  return Number.parseInt(id.slice(0, 8), 16) < share * 2 ** 32;
}

export interface Split {
  readonly training: readonly Prompt[];
  readonly heldOut: readonly Prompt[];
}

/** Splits prompts into training and held-out ones. Throws invalid_option if either part is empty. */
export function splitPrompts(prompts: readonly Prompt[], heldOutShare: number): Split {
  const heldOut = prompts.filter((prompt) => isHeldOut(prompt, heldOutShare));
  const training = prompts.filter((prompt) => !isHeldOut(prompt, heldOutShare));
  if (heldOut.length === 0 || training.length === 0) {
    const got = `${training.length} and ${heldOut.length} of ${prompts.length}`;
    throw new MillraceError("invalid_option", `expected prompts to train on and prompts held out, got ${got}`, {
      hint: "give more prompts, or another --holdout-share",
    });
  }
  return { training, heldOut };
}

/**
 * The prompts of a task, with their checks. Throws invalid_option for an unknown task and for a line without a check.
 */
export function promptsOfTask(prompts: readonly Prompt[], task: string, source: string): Prompt[] {
  const chosen = prompts.filter(({ family }) => family === undefined || family === task);
  if (chosen.length === 0) {
    const names = [...new Set(prompts.map(({ family }) => family))].join(", ");
    throw new MillraceError("invalid_option", `expected --task to be a family of ${source} (${names}), got "${task}"`);
  }
  const missing = chosen.find(({ check, expected }) => check === undefined || expected === undefined);
  if (missing !== undefined) {
    const what = missing.check === undefined ? "check" : "expected answer";
    throw new MillraceError("invalid_option", `expected a ${what} in ${source}, line ${missing.line}, got none`, {
      hint: "--task needs checks and expected answers: add them, or use --scorer",
    });
  }
  return chosen;
}
