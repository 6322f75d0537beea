/**
 * Counts the tokens of a sequence of requests, and those that a prefix cache holds: the difference is a mend's worth.
 */
import type { PromptRequest } from "./requests.js";

/** Token ids of a text. */
export type Encode = (text: string) => readonly number[];

export interface TokenTotals {
  readonly prompt: number;
  /** Number of the prompt's tokens that an earlier request had at the same position. */
  readonly cached: number;
  readonly output: number;
  /** Tokens that the requests reserve for their answers: the request's limit, or the model's. */
  readonly reserved: number;
}

/** Tokens per block of a prefix cache, as in this engine and vLLM. */
const BLOCK = 16;
/** Reserved tokens of requests without a limit. */
const UNLIMITED = 4096;

/** Tools come first, as in most templates; then the messages in order. */
const promptOf = ({ tools, messages }: PromptRequest): string =>
  [
    ...tools.map(({ definition }) => JSON.stringify(definition)),
    ...messages.map(({ role, content }) => `<${role}>\n${content}`),
  ].join("\n");

export function totalsOf(requests: readonly PromptRequest[], encode: Encode): TokenTotals {
  const seen = new Set<string>();
  let [prompt, cached, output, reserved] = [0, 0, 0, 0];
  for (const request of requests) {
    const ids = encode(promptOf(request));
    prompt += ids.length;
    cached += numCached(ids, seen);
    output += request.outputTokens ?? (request.answer === undefined ? 0 : encode(request.answer).length);
    reserved += request.maxTokens ?? UNLIMITED;
  }
  return { prompt, cached, output, reserved };
}

/** A block's key includes all blocks before it. The last token is always computed. */
function numCached(ids: readonly number[], seen: Set<string>): number {
  let chain = 0;
  let found = 0;
  let isKnown = true;
  for (let end = BLOCK; end < ids.length; end += BLOCK) {
    // Two 32-bit sums: prefixes of one file do not collide in practice.
    let [first, second] = [chain, chain ^ 0x2f3a5];
    for (let i = end - BLOCK; i < end; i++) {
      first = (Math.imul(first, 0x01000193) ^ ids[i]!) >>> 0;
      second = (Math.imul(second + ids[i]!, 0x9e3779b1) ^ (second >>> 15)) >>> 0;
    }
    chain = (first ^ Math.imul(second, 31)) >>> 0;
    const key = `${end} ${first} ${second}`;
    isKnown &&= seen.has(key);
    if (isKnown) found = end;
    seen.add(key);
  }
  return found;
}

/** Four characters per token, for audits without a tokenizer. */
export const estimate: Encode = (text) => {
  const ids: number[] = [];
  for (let at = 0; at < text.length; at += 4) {
    let id = 7;
    for (const character of text.slice(at, at + 4)) id = (Math.imul(id, 31) + character.codePointAt(0)!) >>> 0;
    ids.push(id);
  }
  return ids;
};
