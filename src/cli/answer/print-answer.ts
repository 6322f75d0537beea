/** Prints answers in the terminal: their text as it arrives, and their cost in tokens and time. */
import { formatDuration } from "../../core/quantities.js";
import { visibleLines } from "../../core/visible-text.js";
import type { Answer, AnswerListener } from "./answerer.js";

/** A terminal's stream, or that of a pipe or file, which gets every byte. */
type Output = Pick<NodeJS.WriteStream, "isTTY" | "write">;

/**
 * Writes the answer to one stream, and a server's separate reasoning to the other.
 * @example await answerer.chat(messages, printedTo(process.stdout, process.stderr))
 */
export function printedTo(stdout: Output, stderr: Output): AnswerListener {
  const write = (output: Output, text: string): void => {
    output.write(output.isTTY ? visibleLines(text) : text);
  };
  let isReasoning = false;
  return {
    onText: (text) => {
      if (isReasoning) stderr.write("\n\n");
      isReasoning = false;
      write(stdout, text);
    },
    onReasoning: (text) => {
      isReasoning = true;
      write(stderr, text);
    },
  };
}

export function statsLine(answer: Answer): string {
  const { numPromptTokens, numCachedTokens, numEvictedTokens, numOutputTokens } = answer;
  const { timeToFirstTokenMs, tokensPerSecond, end } = answer;
  const evicted = numEvictedTokens > 0 ? `, ${numEvictedTokens} evicted` : "";
  const cached = numCachedTokens > 0 ? ` (${numCachedTokens} cached)` : "";
  const prompt = numPromptTokens === undefined ? "" : `${numPromptTokens} prompt tokens${cached}, `;
  const speed = tokensPerSecond === undefined ? "" : `, ${tokensPerSecond.toFixed(1)} tok/s`;
  return `${prompt}${numOutputTokens} output tokens${evicted}, first after ${formatDuration(timeToFirstTokenMs)}${speed}, ended by ${end}`;
}
