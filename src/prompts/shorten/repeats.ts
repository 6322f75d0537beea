/** Removes text that a request repeats word for word: lines, and sentences. */
import type { PromptRequest } from "../requests.js";
import { withTexts } from "../text-mends.js";
import { lastLineStart, type Sentence, sentencesOf, withoutSentences } from "./prose.js";

/** Shorter texts ("Thank you.") are repeated for good reasons. */
const LEAST_CHARACTERS = 30;

/** The first of equal texts stays. Answers of examples and the request's last line stay unchanged. */
export function withoutRepeats(request: PromptRequest): PromptRequest {
  const seen = new Set<string>();
  /** Whether the text is long enough and was seen before. Records the text. */
  const wasSeen = (text: string): boolean => {
    const words = text.toLowerCase().replace(/\s+/g, " ").trim();
    if (words.length < LEAST_CHARACTERS) return false;
    const isKnown = seen.has(words);
    seen.add(words);
    return isKnown;
  };
  const last = request.messages.length - 1;
  return withTexts(request, ({ role, content }, index) => {
    if (role === "assistant") return content;
    const end = index === last ? lastLineStart(content) : content.length;
    return withoutSeen(content, end, wasSeen);
  });
}

/** @param end offset from which the text stays */
function withoutSeen(text: string, end: number, wasSeen: (text: string) => boolean): string {
  const sentences = sentencesOf(text);
  const removed = new Set<Sentence>();
  for (const line of linesOf(text, sentences)) {
    const [first, last] = [line[0]!, line.at(-1)!];
    if (first.isFixed || last.end > end) continue;
    const isLineSeen = wasSeen(text.slice(first.start, last.end));
    for (const sentence of line) {
      const isSeen = isLineSeen || (line.length > 1 && wasSeen(text.slice(sentence.start, sentence.end)));
      if (isSeen) removed.add(sentence);
    }
  }
  const shorter = withoutSentences(text, sentences, (sentence) => removed.has(sentence));
  return shorter.trim() === "" ? text : shorter;
}

function linesOf(text: string, sentences: readonly Sentence[]): Sentence[][] {
  const lines: Sentence[][] = [[]];
  for (const sentence of sentences) {
    lines.at(-1)!.push(sentence);
    if (text[sentence.end - 1] === "\n") lines.push([]);
  }
  return lines.filter(({ length }) => length > 0);
}
