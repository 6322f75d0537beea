/**
 * Divides a prompt's text into sentences and protected spans, which no shortening may touch. Texts are hostile: every
 * pattern is bounded.
 */
import { FENCE, mapProse } from "../text-mends.js";

/** UTF-16 offsets of a text. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Sentence extends Span {
  /** Whether the sentence is code, JSON or a heading, which stays unchanged. */
  readonly isFixed: boolean;
}

/** Titles and initials, whose full stop does not end the sentence. */
const ABBREVIATION = /(?:^|[\s("'])(?:[A-Z][a-z]{0,3}|[a-z]|e\.g|i\.e|etc|vs|approx)\.$/;
const BOUNDARY = /[.!?]["')\]]{0,3}[ \t]{1,20}(?=["'(]?[A-Z0-9])/g;
/** A line of JSON or of a table, or a heading. */
const FIXED_LINE = /^\s*(?:[{}[\]|#]|"[^"\n]{0,200}"\s{0,20}:)/;

/**
 * Sentences with the white space after them; together they cover the text. A line break also ends a sentence.
 *
 * @example sentencesOf("See Dr. Mo. Bring it.").length // 2
 */
export function sentencesOf(text: string): Sentence[] {
  const sentences: Sentence[] = [];
  let start = 0;
  for (const [index, part] of text.split(FENCE).entries()) {
    const isCode = index % 2 === 1;
    if (isCode) {
      const from = start - FENCE.length;
      start += part.length + FENCE.length;
      sentences.push({ start: from, end: Math.min(start, text.length), isFixed: true });
      continue;
    }
    let lineStart = start;
    for (const line of part.split(/(?<=\n)/)) {
      addLine(sentences, line, lineStart);
      lineStart += line.length;
    }
    start = lineStart + FENCE.length;
  }
  // An unclosed fence was counted with its mark; the text's end was counted too.
  return sentences.filter(({ start: from, end }) => end > from);
}

function addLine(sentences: Sentence[], line: string, offset: number): void {
  if (line === "") return;
  const isFixed = FIXED_LINE.test(line);
  let from = 0;
  if (!isFixed) {
    for (const { index, 0: boundary } of line.matchAll(BOUNDARY)) {
      if (ABBREVIATION.test(line.slice(Math.max(0, index - 10), index + 1))) continue;
      sentences.push({ start: offset + from, end: offset + index + boundary.length, isFixed });
      from = index + boundary.length;
    }
  }
  sentences.push({ start: offset + from, end: offset + line.length, isFixed });
}

/** Words that require or negate something. Removing such a word would reverse the meaning. */
const OBLIGATION =
  /^(?:not|no|none|never|without|must|mustn|only|unless|except|always|cannot|shall|required|forbidden|null|n't)$|n['’]t$/i;
/** Inline code, placeholders, tags, quotes. */
const MARKED =
  /`[^`\n]{1,200}`|\$?\{\{?[^{}\n]{1,80}\}?\}|<\/?[A-Za-z][^<>\n]{0,80}>|\[[A-Z_]{2,40}\]|"[^"\n]{1,200}"|“[^”\n]{1,200}”|(?<![A-Za-z0-9])'[^'\n]{1,200}'(?![A-Za-z0-9])/g;
const WORD = /\S+/g;
/** Numbers, paths, addresses, identifiers, words with inner capitals. */
const TECHNICAL = /[\d@/\\_=<>{}$%#]|[a-z][A-Z]|^[("']?[A-Z]{2,}/;
const CAPITALISED = /^["'(]?\p{Lu}/u;

/**
 * Spans to keep: code, placeholders, quotes, numbers, names; sorted, without overlap.
 *
 * @example protectedSpans("Ask Ms Bea for {item}.") // Ms, Bea, {item}
 */
export function protectedSpans(text: string, sentences: readonly Sentence[] = sentencesOf(text)): Span[] {
  const marked: Span[] = [...text.matchAll(MARKED)].map(({ index, 0: found }) => ({
    start: index,
    end: index + found.length,
  }));
  const spans: Span[] = marked;
  for (const sentence of sentences) {
    if (sentence.isFixed) spans.push(withoutBlankEnd(text, sentence));
    else spans.push(...namesAndNumbers(text, sentence));
  }
  return merged(spans);
}

/** A fixed line that becomes the text's last one loses the white space after it. */
const withoutBlankEnd = (text: string, { start, end }: Span): Span => ({
  start,
  end: start + text.slice(start, end).trimEnd().length,
});

function namesAndNumbers(text: string, { start, end }: Sentence): Span[] {
  const words = [...text.slice(start, end).matchAll(WORD)];
  return words.flatMap(({ index, 0: word }, at) => {
    // Every sentence begins with a capital; its first word counts as a name if another name follows.
    const isName = CAPITALISED.test(word) && (at > 0 || CAPITALISED.test(words[1]?.[0] ?? ""));
    if (!isName && !TECHNICAL.test(word)) return [];
    const bare = word.replace(/[.,;:!?)"']{1,5}$/, "");
    return bare === "" || bare === "I" ? [] : [{ start: start + index, end: start + index + bare.length }];
  });
}

function merged(spans: readonly Span[]): Span[] {
  const result: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last !== undefined && span.start < last.end) {
      result[result.length - 1] = { start: last.start, end: Math.max(last.end, span.end) };
    } else result.push(span);
  }
  return result;
}

/** Whether a text says that something must be, must not be, or is not. */
export const isObligation = (text: string): boolean =>
  [...text.matchAll(WORD)].some(({ 0: word }) => OBLIGATION.test(word.replace(/^["'(]{1,5}|[.,;:!?)"']{1,5}$/g, "")));

/**
 * `text` without some of its sentences. A line that loses its end keeps its line break, and empty lines do not
 * accumulate.
 */
export function withoutSentences(
  text: string,
  sentences: readonly Sentence[],
  isRemoved: (sentence: Sentence) => boolean,
): string {
  const kept: string[] = [];
  let isLineKept = false;
  for (const sentence of sentences) {
    const piece = text.slice(sentence.start, sentence.end);
    const isEnd = piece.endsWith("\n");
    if (!isRemoved(sentence)) {
      kept.push(piece);
      isLineKept = true;
    } else if (isEnd && isLineKept) kept.push("\n");
    if (isEnd) isLineKept = false;
  }
  const result = kept.join("");
  return result === text ? text : mapProse(result, (prose) => prose.replace(/\n{3,}/g, "\n\n")).trimEnd();
}

/** Start of the last line with text, which mostly holds the question. */
export function lastLineStart(text: string): number {
  const end = text.trimEnd().length;
  return text.lastIndexOf("\n", end - 1) + 1;
}
