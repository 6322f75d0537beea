/**
 * Lets a model rewrite shared prompts in fewer words. The result counts only if it is shorter and keeps every number,
 * name, quote and placeholder.
 */
import type { PromptRequest } from "../requests.js";
import { withTexts } from "../text-mends.js";
import { type Candidate, sharedContents } from "./candidate.js";
import { protectedSpans } from "./prose.js";

/** A model's answer to one message; undefined: there is none. */
export type Write = (message: string) => Promise<string | undefined>;

const STYLES = [
  ["half", "Use at most half as many words; drop what does not change the answers."],
  ["shorter", "Use fewer words, and leave out no instruction."],
] as const;
/** Most texts to rewrite, since each costs an answer; those with the most tokens in total come first. */
const MAX_TEXTS = 20;
const LEAST_CHARACTERS = 120;

export function rewritingCandidates(write: Write): Candidate[] {
  return STYLES.map(([style, wish]): Candidate => {
    // Each text is rewritten once, so that the written prompts equal the judged ones.
    const known = new Map<string, string>();
    return {
      name: `rewritten prompt, ${style}`,
      method: "rewriting",
      group: "rewritten prompt",
      apply: async (requests) => {
        const texts = new Set(longestShared(requests));
        for (const text of texts) if (!known.has(text)) known.set(text, await rewrite(text, wish, write));
        const after = (content: string): string => (texts.has(content) ? known.get(content)! : content);
        return requests.map((request) => withTexts(request, ({ content }) => after(content)));
      },
    };
  });
}

function longestShared(requests: readonly PromptRequest[]): string[] {
  const answers = new Set(
    requests.flatMap(({ messages }) =>
      messages.filter(({ role }) => role === "assistant").map(({ content }) => content),
    ),
  );
  return [...sharedContents(requests)]
    .filter(([text]) => text.length >= LEAST_CHARACTERS && !answers.has(text))
    .sort(([a, countA], [b, countB]) => countB * b.length - countA * a.length)
    .slice(0, MAX_TEXTS)
    .map(([text]) => text);
}

/** @returns `text` itself where the model's answer is unusable */
async function rewrite(text: string, wish: string, write: Write): Promise<string> {
  const message =
    `Rewrite the prompt between the lines of equals signs for the same language model. ${wish} Keep numbers, names, ` +
    `quotes, code, JSON and placeholders letter for letter, and every "must", "never" and "not". Answer with the new ` +
    `prompt alone.\n=====\n${text}\n=====`;
  const answer = withoutRules((await write(message)) ?? "");
  return isFaithful(text, answer) ? answer : text;
}

/** Removes the lines of equals signs that some models repeat. */
function withoutRules(answer: string): string {
  const lines = answer.trim().split("\n");
  const isRule = (line: string | undefined): boolean => line !== undefined && /^={3,20}\s?$/.test(line);
  return lines
    .slice(isRule(lines[0]) ? 1 : 0, isRule(lines.at(-1)) ? -1 : undefined)
    .join("\n")
    .trim();
}

/** Whether `answer` is shorter and keeps the protected spans of `text`. */
export function isFaithful(text: string, answer: string): boolean {
  if (answer === "" || answer.length >= text.length) return false;
  return protectedSpans(text).every(({ start, end }) => hasWhole(answer, text.slice(start, end).trim()));
}

/** A word or number continues across letters and digits, and across digits after a point or comma. */
const GOES_ON_BEFORE = /[\p{L}\p{N}]$|\p{N}[.,]$/u;
const GOES_ON_AFTER = /^[\p{L}\p{N}]|^[.,]\p{N}/u;

/** Whether `answer` contains the span verbatim, and not within a longer word or number. */
function hasWhole(answer: string, span: string): boolean {
  const [opens, closes] = [GOES_ON_AFTER.test(span), GOES_ON_BEFORE.test(span)];
  for (let at = answer.indexOf(span); at >= 0; at = answer.indexOf(span, at + 1)) {
    const end = at + span.length;
    const isPart =
      (opens && GOES_ON_BEFORE.test(answer.slice(Math.max(0, at - 2), at))) ||
      (closes && GOES_ON_AFTER.test(answer.slice(end, end + 2)));
    if (!isPart) return true;
  }
  return false;
}
