/** Ways to shorten requests, which only an evaluation can judge. */
import type { PromptRequest } from "../requests.js";

export type Method = "rules" | "extraction" | "rewriting";

export interface Candidate {
  /** @example "sentences of the prompt, 35 %" */
  readonly name: string;
  readonly method: Method;
  /** The candidates of one group differ in strength, and at most one of them is kept. */
  readonly group: string;
  /** As many requests as before, in order; untouched ones are the same objects. */
  apply(requests: readonly PromptRequest[]): Promise<readonly PromptRequest[]>;
}

/** A text counts as shared if so many requests have it, and this share of them. */
const LEAST_SHARED = 3;
const LEAST_SHARE = 0.05;

/** How often each text occurs, of those that many requests have. @param textsOf one request's texts, each once */
export function sharedBy<T>(requests: readonly T[], textsOf: (request: T) => Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const request of requests) {
    for (const text of new Set(textsOf(request))) counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  const least = Math.max(LEAST_SHARED, LEAST_SHARE * requests.length);
  return new Map([...counts].filter(([, count]) => count >= least));
}

/** Contents of messages that an application sends again and again: its system prompts and examples. */
export const sharedContents = (requests: readonly Pick<PromptRequest, "messages">[]): ReadonlyMap<string, number> =>
  sharedBy(requests, ({ messages }) => messages.map(({ content }) => content));
