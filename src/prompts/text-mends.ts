/** Changes the form of a prompt's texts: white space and JSON, outside code. */
import type { PromptMessage, PromptRequest } from "./requests.js";

/** Changes the texts of a request's messages; returns the same object if no text changes. */
export function withTexts(
  request: PromptRequest,
  change: (message: PromptMessage, index: number) => string,
): PromptRequest {
  const messages = request.messages.map((message, index) => {
    const content = change(message, index);
    return content === message.content || message.isFixed === true ? message : { ...message, content };
  });
  return messages.every((message, index) => message === request.messages[index]) ? request : { ...request, messages };
}

export const FENCE = "```";

/**
 * Changes text outside fenced code; also code of `language`. Texts are hostile: no pattern here looks back or tries
 * twice.
 */
export function mapProse(text: string, change: (prose: string) => string, language?: string): string {
  const parts = text.split(FENCE);
  const isChanged = (part: string, index: number): boolean =>
    index % 2 === 0 || (language !== undefined && part.startsWith(`${language}\n`));
  return parts.map((part, index) => (isChanged(part, index) ? change(part) : part)).join(FENCE);
}

/** Removes spaces at line ends, runs of three or more spaces, and runs of empty lines. */
export function withoutBlanks(prose: string): string {
  const lines = prose.split("\n").map((line, index, all) => (index === all.length - 1 ? line : line.trimEnd()));
  return lines
    .join("\n")
    .replace(/(\S) {3,}/g, "$1 ")
    .replace(/\n{3,}/g, "\n\n");
}

/** Texts with more openings than this that begin no JSON stay unchanged. */
const MAX_BROKEN = 100;

/** Puts an object or list on one line, if it spans several and its brackets are alone on the first and last line. */
export function minified(text: string): string {
  const lines = text.split("\n");
  const closings = { "}": nextLines(lines, "}"), "]": nextLines(lines, "]") };
  const written: string[] = [];
  let numBroken = 0;
  for (let at = 0; at < lines.length; at++) {
    const closing = ({ "{": "}", "[": "]" } as const)[lines[at]!.trimEnd()];
    const end = closing === undefined || numBroken > MAX_BROKEN ? -1 : closings[closing][at]!;
    const json = end < 0 ? undefined : compactJson(lines.slice(at, end + 1).join("\n"));
    if (closing !== undefined && json === undefined) numBroken++;
    written.push(json ?? lines[at]!);
    if (json !== undefined) at = end;
  }
  return written.join("\n");
}

/** For each line, the next line at or after it that is exactly `content`; −1: none. */
function nextLines(lines: readonly string[], content: string): Int32Array {
  const next = new Int32Array(lines.length);
  let found = -1;
  for (let at = lines.length - 1; at >= 0; at--) {
    if (lines[at]!.trimEnd() === content) found = at;
    next[at] = found;
  }
  return next;
}

/** undefined: the text is not an object or list in JSON */
export function compactJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? withoutSpaces(text) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Removes white space between the tokens of valid JSON. Parsing and serialising would lose long integers and repeated
 * keys.
 */
function withoutSpaces(json: string): string {
  const kept: string[] = [];
  let from = 0;
  let isString = false;
  for (let at = 0; at < json.length; at++) {
    const character = json[at]!;
    if (isString && character === "\\") at++;
    else if (character === '"') isString = !isString;
    else if (!isString && " \t\r\n".includes(character)) {
      if (at > from) kept.push(json.slice(from, at));
      from = at + 1;
    }
  }
  kept.push(json.slice(from));
  return kept.join("");
}
