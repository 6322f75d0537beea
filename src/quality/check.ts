/**
 * The check of a chat's last answer, as chat files state it. Files come from outside, so this module validates checks.
 */
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { plainChatOf, type RecordedRequest, recordedRequest } from "../core/recorded-request.js";
import { problemText } from "../core/schema-problem.js";
import { CHECK_NAMES } from "../gateway/quality/checks/checks.js";
import { type Message, messageSchema, toolSchema } from "./ask.js";
import { parseJson } from "./fenced.js";
import { ruleSchema } from "./rule-score.js";

const MAX_CALLS = 100;

function isPattern(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}

export const checkSchema = z.discriminatedUnion("kind", [
  /** There is no right answer, so nothing is scored. */
  z.strictObject({ kind: z.literal("none") }),
  /** No answer alone is right: a judge compares two models' answers. */
  z.strictObject({ kind: z.literal("judge") }),
  /** Equal to the expected answer, except for white space at line ends. */
  z.strictObject({ kind: z.literal("exact") }),
  /** Equal except for letter case, surrounding quotes and a final punctuation mark. */
  z.strictObject({ kind: z.literal("phrase") }),
  /** Contains one of these texts, like OpenAI's evals with their ideals. */
  z.strictObject({ kind: z.literal("includes"), texts: z.array(z.string().min(1)).min(1).readonly() }),
  /** A part of the answer matches. */
  z.strictObject({
    kind: z.literal("regex"),
    pattern: z.string().refine(isPattern, { error: ({ input }) => `no regular expression: ${JSON.stringify(input)}` }),
    flags: z
      .string()
      .regex(/^[imsu]*$/)
      .optional(),
  }),
  /** The last number of the answer. */
  z.strictObject({ kind: z.literal("number"), value: z.number() }),
  /** The expected answer is JSON: values count, key order and white space do not. */
  z.strictObject({ kind: z.literal("json") }),
  /** The requested number of distinct items, all among `items` if given. */
  z.strictObject({
    kind: z.literal("list"),
    numItems: z.int().min(1),
    items: z.array(z.string()).readonly().optional(),
  }),
  /** Ends with punctuation, does not repeat itself and contains all these words. */
  z.strictObject({ kind: z.literal("mentions"), words: z.array(z.string()).readonly() }),
  /** Shares pairs of words with the expected answer and states these facts. */
  z.strictObject({ kind: z.literal("overlap"), facts: z.array(z.string()).readonly() }),
  /** Follows these rules. */
  z.strictObject({ kind: z.literal("follows"), rules: z.array(ruleSchema).min(1).readonly() }),
  /**
   * A chat for checks of production traffic, all of which must pass; `format` is the `response_format` that the answer
   * must have.
   */
  z.strictObject({
    kind: z.literal("without"),
    faults: z.array(z.enum(CHECK_NAMES)).min(1).readonly(),
    format: z.unknown().optional(),
  }),
  /** The answer calls these of the offered tools with these arguments, in any order; empty: it calls no tool. */
  z.strictObject({
    kind: z.literal("calls"),
    calls: z
      .array(z.strictObject({ name: z.string().min(1), arguments: z.record(z.string(), z.unknown()) }))
      .max(MAX_CALLS)
      .readonly(),
  }),
  /** The answer defines a function; each call has an expected result. */
  z.strictObject({
    kind: z.literal("code"),
    language: z.enum(["typescript", "python"]),
    name: z.string().regex(/^[A-Za-z_]\w*$/),
    calls: z
      .array(z.strictObject({ args: z.array(z.unknown()).readonly(), expect: z.unknown() }))
      .min(1)
      .max(MAX_CALLS)
      .readonly(),
  }),
  /** The expected answer is a query: a right answer finds the same rows in the tables of `setup`, in SQLite's SQL. */
  z.strictObject({
    kind: z.literal("sql"),
    setup: z.string(),
    /** Whether the order of the rows counts. */
    isOrdered: z.boolean().optional(),
  }),
]);

export type Check = z.infer<typeof checkSchema>;
export type CodeCheck = Extract<Check, { kind: "code" }>;

/** Whether a single answer can be right or wrong. */
export const scores = ({ kind }: Check): boolean => kind !== "none" && kind !== "judge";

/** The reason why the check cannot judge answers; undefined if it can. */
export function problemOfCheck(check: Check, expected: string): string | undefined {
  const isMissing = check.kind === "json" && parseJson(expected) === undefined;
  return isMissing ? `a JSON check with an expected answer that is not JSON: ${expected.slice(0, 60)}` : undefined;
}

/** A line of OpenAI's evals: a prompt, and one or several right answers. */
const idealSchema = z.object({
  input: z.array(messageSchema).min(1),
  ideal: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]),
});

const chatSchema = z
  .object({
    family: z.string().default("chats"),
    messages: z.array(messageSchema).min(1).readonly(),
    check: checkSchema.default({ kind: "exact" }),
    /** Tools offered with the prompt. */
    tools: z.array(toolSchema).readonly().optional(),
  })
  .transform((chat) => ({ ...chat, messages: answered(chat) }))
  .refine(({ messages }) => messages.length > 1 && messages.at(-1)?.role === "assistant", {
    path: ["messages"],
    error: "the last message must be the assistant's, after another",
  });

/** A chat for a judge may omit its last answer, since nothing is compared with it. */
const answered = ({ messages, check }: { messages: readonly Message[]; check: Check }): readonly Message[] =>
  check.kind === "judge" && messages.at(-1)?.role !== "assistant"
    ? [...messages, { role: "assistant", content: "" }]
    : messages;

/** A chat whose last message is the expected answer. */
export type ScoredChat = z.infer<typeof chatSchema>;

/**
 * Reads chats from JSON lines. The default family is "chats", the default check is `exact`. Recorded requests are chats
 * for a judge; requests with more than texts are left out.
 *
 * @param source the file's name, for errors
 * @throws MillraceError `invalid_option` with the line number
 */
export function parseChats(text: string, source: string): ScoredChat[] {
  const chats: ScoredChat[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const chat = line.trim() === "" ? undefined : parseChat(line, `${source}, line ${index + 1}`);
    if (chat !== undefined) chats.push(chat);
  }
  return chats;
}

function parseChat(line: string, place: string): ScoredChat | undefined {
  const refuse = (problem: string): never => {
    throw new MillraceError("invalid_option", `expected a chat in ${place}, got ${problem}`, {
      hint: 'a line is {"family", "messages": [{"role", "content"}, …], "check": {"kind", …}}, whose last message is the expected answer, or {"input", "ideal"} of OpenAI\'s evals',
    });
  };
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    return refuse(`invalid JSON: ${(cause as Error).message}`);
  }
  const recorded = recordedRequest(value);
  if (recorded !== undefined) return recordedChat(recorded);
  const withIdeal = idealSchema.safeParse(value);
  if (withIdeal.success) return chatOf(withIdeal.data);
  const parsed = chatSchema.safeParse(value);
  if (!parsed.success) {
    return refuse(`another line (${problemText(parsed.error, value)})`);
  }
  const { check, messages, tools = [] } = parsed.data;
  if (check.kind === "calls" && tools.length === 0) return refuse("no tools: expected tools beside a check of calls");
  const problem = problemOfCheck(check, messages.at(-1)!.content);
  return problem === undefined ? parsed.data : refuse(problem);
}

/** A recorded answer is not known to be right. */
function recordedChat(recorded: RecordedRequest): ScoredChat | undefined {
  const plain = plainChatOf(recorded);
  if (plain === undefined) return undefined;
  const messages = [...plain.messages, { role: "assistant" as const, content: plain.answer ?? "" }];
  return { family: "recorded", messages, check: { kind: "judge" } };
}

/** OpenAI's evals accept an answer that includes an ideal. */
function chatOf({ input, ideal }: z.infer<typeof idealSchema>): ScoredChat {
  const texts = typeof ideal === "string" ? [ideal] : ideal;
  const messages = [...input, { role: "assistant" as const, content: texts[0]! }];
  return { family: "evals", messages, check: { kind: "includes", texts } };
}
