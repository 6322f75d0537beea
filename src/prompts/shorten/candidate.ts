/** Candidates for shortening requests; only an evaluation can judge them. */
import type { PromptRequest } from "../requests.js";

export type Method = "rules" | "extraction" | "rewriting";

export interface Candidate {
  /** @example "sentences of the prompt, 35 %" */
  readonly name: string;
  readonly method: Method;
  /** Candidates of a group differ in strength; at most one of them is kept. */
  readonly group: string;
  /** Returns as many requests, in the same order; untouched requests are the same objects. */
  apply(requests: readonly PromptRequest[]): Promise<readonly PromptRequest[]>;
}

/** A text counts as shared if at least this number and this share of the requests have it. */
const LEAST_SHARED = 3;
const LEAST_SHARE = 0.05;

/** Counts of the texts that many requests share. @param textsOf one request's texts, each once */
export function sharedBy<T>(requests: readonly T[], textsOf: (request: T) => Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const request of requests) {
    for (const text of new Set(textsOf(request))) counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  const least = Math.max(LEAST_SHARED, LEAST_SHARE * requests.length);
  return new Map([...counts].filter(([, count]) => count >= least));
}

/** Message contents that an application sends repeatedly: its system prompts and examples. */
export const sharedContents = (requests: readonly Pick<PromptRequest, "messages">[]): ReadonlyMap<string, number> =>
  sharedBy(requests, ({ messages }) => messages.map(({ content }) => content));
