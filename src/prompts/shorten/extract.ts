/**
 * Leaves out text that a small model predicts: whole sentences, or words. After Selective Context (Li et al. 2023) and
 * LLMLingua (Jiang et al. 2023), with protected spans.
 */
import type { PromptRequest } from "../requests.js";
import { withTexts } from "../text-mends.js";
import { type Candidate, sharedContents } from "./candidate.js";
import {
  isObligation,
  lastLineStart,
  protectedSpans,
  type Sentence,
  type Span,
  sentencesOf,
  withoutSentences,
} from "./prose.js";

/** A model's surprise at each token of a text. */
export interface TokenSurprise {
  /** UTF-16 end offsets of the tokens, ascending. */
  readonly ends: readonly number[];
  /** Negative log-likelihoods, in nats. */
  readonly nats: readonly number[];
}

/** @returns one entry per text; undefined: the model's tokens do not spell the text */
export type Surprise = (texts: readonly string[]) => Promise<readonly (TokenSurprise | undefined)[]>;

/** Shares of a text's tokens to remove. */
const SENTENCE_SHARES = [0.5, 0.35, 0.2, 0.1] as const;
const WORD_SHARES = [0.3, 0.2, 0.1] as const;
/** Shorter texts have little to remove. */
const LEAST_CHARACTERS = 120;

export function extractionCandidates(surprise: Surprise): Candidate[] {
  const known = new Map<string, TokenSurprise | undefined>();
  const units = [
    { unit: "sentences", shares: SENTENCE_SHARES, shorten: withoutPredictedSentences },
    { unit: "words", shares: WORD_SHARES, shorten: withoutPredictedWords },
  ] as const;
  return units.flatMap(({ unit, shares, shorten }) =>
    (["prompt", "request"] as const).flatMap((part) =>
      shares.map(
        (share): Candidate => ({
          name: `${unit} of the ${part}, ${Math.round(100 * share)} %`,
          method: "extraction",
          group: `${unit} of the ${part}`,
          apply: (requests) => extracted(requests, part, known, surprise, (...text) => shorten(...text, share)),
        }),
      ),
    ),
  );
}

/** @param part the texts that many requests share, or each request's own texts */
async function extracted(
  requests: readonly PromptRequest[],
  part: "prompt" | "request",
  known: Map<string, TokenSurprise | undefined>,
  surprise: Surprise,
  shorten: (text: string, tokens: TokenSurprise, end: number) => string,
): Promise<readonly PromptRequest[]> {
  const shared = sharedContents(requests);
  const isMeant = (role: string, content: string): boolean =>
    role !== "assistant" && content.length >= LEAST_CHARACTERS && shared.has(content) === (part === "prompt");
  const texts = new Set(
    requests.flatMap(({ messages }) =>
      messages.filter(({ role, content }) => isMeant(role, content)).map(({ content }) => content),
    ),
  );
  const news = [...texts].filter((text) => !known.has(text));
  for (const [index, tokens] of (await surprise(news)).entries()) known.set(news[index]!, tokens);
  return requests.map((request) =>
    withTexts(request, ({ role, content }, at) => {
      const tokens = isMeant(role, content) ? known.get(content) : undefined;
      if (tokens === undefined) return content;
      const end = at === request.messages.length - 1 ? lastLineStart(content) : content.length;
      const shorter = shorten(content, tokens, end);
      return shorter.trim() === "" ? content : shorter;
    }),
  );
}

interface Scored<T extends Span> {
  readonly span: T;
  readonly numTokens: number;
  readonly nats: number;
}

/** A token belongs to the span of its last character. @param spans sorted, without overlap */
function scored<T extends Span>(spans: readonly T[], { ends, nats }: TokenSurprise): Scored<T>[] {
  let at = 0;
  return spans.map((span) => {
    while (at < ends.length && ends[at]! <= span.start) at++;
    const first = at;
    let sum = 0;
    for (; at < ends.length && ends[at]! <= span.end; at++) sum += nats[at]!;
    return { span, numTokens: at - first, nats: sum };
  });
}

/**
 * Removes the sentences with the least mean surprise per token. Sentences that oblige or negate stay, and each number,
 * name or quote stays in at least one place.
 *
 * @param end offset from which the text stays
 * @param share largest share of the text's tokens to remove
 */
export function withoutPredictedSentences(text: string, tokens: TokenSurprise, end: number, share: number): string {
  const sentences = sentencesOf(text);
  const facts = factsBySentence(text, sentences);
  const places = new Map<string, number>();
  for (const fact of [...facts.values()].flatMap((each) => [...each])) places.set(fact, (places.get(fact) ?? 0) + 1);
  const mayGo = ({ isFixed, start, end: own }: Sentence): boolean =>
    !isFixed && own <= end && !isObligation(text.slice(start, own));
  const byMean = scored(sentences, tokens)
    .filter(({ span, numTokens }) => numTokens > 0 && mayGo(span))
    .sort((a, b) => a.nats / a.numTokens - b.nats / b.numTokens);
  let budget = Math.floor(share * tokens.ends.length);
  const removed = new Set<Sentence>();
  for (const { span, numTokens } of byMean) {
    const own = facts.get(span)!;
    if (numTokens > budget || [...own].some((fact) => places.get(fact) === 1)) continue;
    budget -= numTokens;
    removed.add(span);
    for (const fact of own) places.set(fact, places.get(fact)! - 1);
  }
  return withoutSentences(text, sentences, (sentence) => removed.has(sentence));
}

/** The texts of the protected spans in each sentence. */
function factsBySentence(text: string, sentences: readonly Sentence[]): Map<Sentence, ReadonlySet<string>> {
  const spans = protectedSpans(text, sentences);
  let at = 0;
  return new Map(
    sentences.map((sentence) => {
      const facts = new Set<string>();
      // A quote across two sentences belongs to both.
      while (at > 0 && spans[at - 1]!.end > sentence.start) at--;
      for (; at < spans.length && spans[at]!.start < sentence.end; at++) {
        if (spans[at]!.end > sentence.start) facts.add(text.slice(spans[at]!.start, spans[at]!.end));
      }
      return [sentence, facts];
    }),
  );
}

/** Removes the words with the least surprise outside protected spans. Line breaks stay. Parameters as above. */
export function withoutPredictedWords(text: string, tokens: TokenSurprise, end: number, share: number): string {
  const spans = protectedSpans(text);
  const words: Span[] = [...text.matchAll(/\S+[ \t]*/g)].map(({ index, 0: word }) => ({
    start: index,
    end: index + word.length,
  }));
  let at = 0;
  const isFree = ({ start, end: own }: Span): boolean => {
    while (at < spans.length && spans[at]!.end <= start) at++;
    return own <= end && (at === spans.length || spans[at]!.start >= own) && !isObligation(text.slice(start, own));
  };
  const free = new Set(words.filter(isFree));
  const bySurprise = scored(words, tokens)
    .filter(({ span, numTokens }) => numTokens > 0 && free.has(span))
    .sort((a, b) => a.nats - b.nats);
  let budget = Math.floor(share * tokens.ends.length);
  const removed = new Set<Span>();
  for (const { span, numTokens } of bySurprise) {
    if (numTokens > budget) continue;
    budget -= numTokens;
    removed.add(span);
  }
  let from = 0;
  const kept: string[] = [];
  for (const word of words.filter((each) => removed.has(each))) {
    kept.push(text.slice(from, word.start));
    from = word.end;
  }
  kept.push(text.slice(from));
  return kept.join("");
}
