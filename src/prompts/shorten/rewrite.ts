/** Lets a model say shared prompts in fewer words. Its text is used only if it is shorter and has every number, name, quote and placeholder. */
import type { PromptRequest } from "../requests.js";
import { withTexts } from "../text-mends.js";
import { type Candidate, sharedContents } from "./candidate.js";
import { protectedSpans } from "./prose.js";

/** The answer of a model to one message; undefined: it has none. */
export type Write = (message: string) => Promise<string | undefined>;

const STYLES = [
  ["half", "Use at most half as many words; drop what does not change the answers."],
  ["shorter", "Use fewer words, and leave out no instruction."],
] as const;
/** Each costs an answer; those with the most tokens in all are rewritten. */
const MAX_TEXTS = 20;
const LEAST_CHARACTERS = 120;

export function rewritingCandidates(write: Write): Candidate[] {
  return STYLES.map(
    ([style, wish]): Candidate => ({
      name: `rewritten prompt, ${style}`,
      method: "rewriting",
      group: "rewritten prompt",
      apply: async (requests) => {
        const rewritten = await rewrite(longestShared(requests), wish, write);
        return requests.map((request) => withTexts(request, ({ content }) => rewritten.get(content) ?? content));
      },
    }),
  );
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

async function rewrite(texts: readonly string[], wish: string, write: Write): Promise<Map<string, string>> {
  const rewritten = new Map<string, string>();
  for (const text of texts) {
    const message =
      `Rewrite the prompt between the lines of equals signs for the same language model. ${wish} Keep numbers, names, ` +
      `quotes, code, JSON and placeholders letter for letter, and every "must", "never" and "not". Answer with the new ` +
      `prompt alone.\n=====\n${text}\n=====`;
    const answer = withoutRules((await write(message)) ?? "");
    if (isFaithful(text, answer)) rewritten.set(text, answer);
  }
  return rewritten;
}

/** Some models repeat the lines of equals signs. */
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
  return protectedSpans(text).every(({ start, end }) => answer.includes(text.slice(start, end).trim()));
}
