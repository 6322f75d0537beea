/**
 * Log-probabilities in the APIs' forms: OpenAI's for chat, OpenAI's older one for completions, and vLLM's
 * `prompt_logprobs`.
 */
import type { TokenLogprob } from "../../engine/api/output.js";
import { tokenText } from "../../text/token-text.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import type { ScoredToken } from "../generation/generation.js";

/** JSON has no -Infinity, so vLLM's floor replaces it. */
const LOWEST_LOGPROB = -9999;

function finite(logprob: number): number {
  return Math.max(logprob, LOWEST_LOGPROB);
}

function nameOf(tokenizer: Tokenizer, tokenId: number, isAsId: boolean): string {
  return isAsId ? `token_id:${tokenId}` : tokenText(tokenizer, tokenId);
}

interface ChatTokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** `choices[].logprobs` of chat completions. */
export function chatLogprobs(tokenizer: Tokenizer, scored: readonly ScoredToken[], isAsId: boolean) {
  const describe = (tokenId: number, logprob: number): ChatTokenLogprob => ({
    token: nameOf(tokenizer, tokenId, isAsId),
    logprob: finite(logprob),
    bytes: [...tokenizer.tokenBytes(tokenId)],
  });
  return {
    content: scored.map(({ logprob }) => ({
      ...describe(logprob.tokenId, logprob.logprob),
      top_logprobs: logprob.top.map((top) => describe(top.tokenId, top.logprob)),
    })),
    refusal: null,
  };
}

/** One position of the older form; null log-probabilities for a prompt's first token. */
export interface LegacyEntry {
  readonly tokenId: number;
  readonly logprob: TokenLogprob | null;
  readonly textOffset: number;
}

/**
 * `choices[].logprobs` of completions. top_logprobs always includes the token itself, so there may be one more than
 * requested.
 */
export function legacyLogprobs(tokenizer: Tokenizer, entries: readonly LegacyEntry[], isAsId: boolean) {
  const top = (logprob: TokenLogprob) => {
    const byText = new Map<string, number>();
    for (const candidate of [...logprob.top, logprob]) {
      const text = nameOf(tokenizer, candidate.tokenId, isAsId);
      // Two tokens may have the same text; the likelier one comes first and is kept.
      if (!byText.has(text)) byText.set(text, finite(candidate.logprob));
    }
    // As in vLLM, the token itself comes first.
    const own = nameOf(tokenizer, logprob.tokenId, isAsId);
    return Object.fromEntries([[own, byText.get(own)], ...byText]);
  };
  return {
    text_offset: entries.map((entry) => entry.textOffset),
    token_logprobs: entries.map(({ logprob }) => (logprob === null ? null : finite(logprob.logprob))),
    tokens: entries.map((entry) => nameOf(tokenizer, entry.tokenId, isAsId)),
    top_logprobs: entries.map(({ logprob }) => (logprob === null ? null : top(logprob))),
  };
}

/** vLLM's `prompt_logprobs`: for each prompt position, null or { id: { logprob, rank, decoded_token } }. */
export function promptLogprobs(tokenizer: Tokenizer, positions: readonly (TokenLogprob | null)[]) {
  return positions.map((position) => {
    if (position === null) return null;
    const byId: Record<string, { logprob: number; rank: number; decoded_token: string }> = {};
    const put = (tokenId: number, logprob: number, rank: number) => {
      byId[String(tokenId)] = {
        logprob: finite(logprob),
        rank,
        decoded_token: tokenText(tokenizer, tokenId),
      };
    };
    put(position.tokenId, position.logprob, position.rank);
    for (const [index, top] of position.top.entries()) put(top.tokenId, top.logprob, index + 1);
    return byId;
  });
}
