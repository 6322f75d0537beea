/**
 * Sorts requests into classes of tasks, because the text determines which drafts are right: a value copied from the
 * prompt, a line of code, a free sentence.
 */

/** The parts of a request that the rules read. */
export interface RuledRequest {
  /** The user's own class for the request. */
  readonly label?: string | undefined;
  /** Whether the request asks for JSON. */
  readonly hasFormat: boolean;
  readonly tools: readonly unknown[];
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

export interface TaskClass {
  readonly name: string;
  /** The deciding rule. */
  readonly because: string;
}

/** The first matching rule decides. */
export function taskClassOf(request: RuledRequest, answer: string): TaskClass {
  const { label, hasFormat, tools, messages } = request;
  if (label !== undefined) return { name: label, because: "its own label" };
  if (hasFormat) return { name: "json", because: "response_format" };
  if (tools.length > 0) return { name: "json", because: "tools" };
  if (isJson(answer)) return { name: "json", because: "the answer is JSON" };
  if (repeatedShare(answer, messages.map(({ content }) => content).join("\n")) >= LEAST_REPEATED) {
    return { name: "edit", because: "the answer repeats its prompt" };
  }
  if (answer.includes("```")) return { name: "code", because: "fenced code" };
  if (codeShare(answer) >= LEAST_CODE) return { name: "code", because: "lines of code" };
  const asked = messages.findLast(({ role }) => role === "user")?.content.slice(0, MOST_ASKED) ?? "";
  const word = CREATIVE.exec(asked)?.[0];
  if (word !== undefined) return { name: "creative", because: "asks for a story, a poem or the like" };
  return { name: "chat", because: "none of these" };
}

/** Most characters to read: the beginning of a longer text decides. */
const MOST_ANSWER = 20_000;
const MOST_PROMPT = 200_000;
const MOST_ASKED = 1000;

function isJson(answer: string): boolean {
  const text = answer.slice(0, MOST_ANSWER).trim();
  if (!/^[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    // An answer cut by its limit still counts as an object if it has a first key.
    return /^\[?\s*\{\s*"[^"\n]*"\s*:/.test(text);
  }
}

/** Words of a sequence that occurs in both texts. */
const SEQUENCE = 4;
const LEAST_WORDS = 12;
const LEAST_REPEATED = 0.6;

const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

const sequencesOf = (words: readonly string[]): string[] =>
  words.slice(SEQUENCE - 1).map((_, end) => words.slice(end, end + SEQUENCE).join(" "));

/**
 * Share of the answer's sequences of four words or signs that occur in the prompt; 0 for short answers, which prove
 * nothing.
 */
function repeatedShare(answer: string, prompt: string): number {
  const words = wordsOf(answer.slice(0, MOST_ANSWER));
  if (words.length < LEAST_WORDS) return 0;
  const known = new Set(sequencesOf(wordsOf(prompt.slice(-MOST_PROMPT))));
  const sequences = sequencesOf(words);
  return sequences.filter((each) => known.has(each)).length / sequences.length;
}

const LEAST_CODE = 1 / 3;
const CODE_LINE =
  /[;{}]\s*$|^\s*(?:def|class|function|const|let|var|import|from|fn|func|public|private|package|using|select|export|return|if|for|while)\b.*[(=:;{]|^\s*#include\b/i;

/** Share of the lines that look like code. */
function codeShare(answer: string): number {
  const lines = answer
    .slice(0, MOST_ANSWER)
    .split("\n")
    .filter((line) => line.trim() !== "");
  return lines.filter((line) => CODE_LINE.test(line)).length / Math.max(1, lines.length);
}

const CREATIVE =
  /\b(?:story|stories|poem|poetry|haiku|sonnet|limerick|song|lyrics|tales?|fiction|novel|screenplay|dialogue|monologue|slogan|joke|imagine|pretend|role-?play)\b/i;

export interface ClassCount {
  readonly name: string;
  readonly numRequests: number;
  /** Requests by the deciding rule, the most frequent first. */
  readonly rules: readonly { readonly because: string; readonly numRequests: number }[];
  /** Share of the decoding time of all requests without drafts; all classes sum to 1. */
  readonly share: number;
}

/** @param decodingMs of each request without drafts @returns the class with the largest share first */
export function countClasses(classes: readonly TaskClass[], decodingMs: readonly number[]): ClassCount[] {
  const total = decodingMs.reduce((sum, ms) => sum + ms, 0);
  const names = [...new Set(classes.map(({ name }) => name))];
  const counts = names.map((name): ClassCount => {
    const members = classes.flatMap((each, index) => (each.name === name ? [{ ...each, ms: decodingMs[index]! }] : []));
    const reasons = [...new Set(members.map(({ because }) => because))];
    const rules = reasons
      .map((because) => ({ because, numRequests: members.filter((each) => each.because === because).length }))
      .sort((a, b) => b.numRequests - a.numRequests);
    const ms = members.reduce((sum, each) => sum + each.ms, 0);
    return { name, numRequests: members.length, rules, share: ms / Math.max(total, Number.MIN_VALUE) };
  });
  return counts.sort((a, b) => b.share - a.share);
}
