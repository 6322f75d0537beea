/** A call's arguments as a value, for APIs that return an object instead of the model's text. */

type Closer = "}" | "]";

interface Cut {
  readonly end: number;
  /** The closing brackets and quotes that the text still needs at this position. */
  readonly closers: string;
}

/** A deeper value could not be serialised as JSON again. */
const MAX_DEPTH = 128;

/**
 * The end of the text, and the last earlier position where every open bracket can be closed; empty if the nesting is
 * too deep.
 */
function cutsOf(text: string): readonly Cut[] {
  const open: Closer[] = [];
  let isInString = false;
  let safe: { readonly end: number; readonly depth: number } | undefined;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (isInString) {
      if (char === "\\") i++;
      else if (char === '"') isInString = false;
    } else if (char === '"') isInString = true;
    else if (char === "{" || char === "[") {
      open.push(char === "{" ? "}" : "]");
      if (open.length > MAX_DEPTH) return [];
      safe = { end: i + 1, depth: open.length };
    } else if (char === "}" || char === "]") {
      open.pop();
      // The set of open brackets has changed since the last safe position.
      if (safe !== undefined && open.length < safe.depth) safe = { end: i + 1, depth: open.length };
    } else if (char === ",") safe = { end: i, depth: open.length };
  }
  const closers = open.toReversed().join("");
  const tail = { end: text.length, closers: (isInString ? '"' : "") + closers };
  return safe === undefined
    ? [tail]
    : [tail, { end: safe.end, closers: open.slice(0, safe.depth).toReversed().join("") }];
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Arguments that are cut off, for example by the token limit, are read up to the cut; unreadable ones become an empty
 * object.
 *
 * @example readArguments('{"city": "Par') // { city: "Par" }
 */
export function readArguments(text: string): Readonly<Record<string, unknown>> {
  for (const { end, closers } of cutsOf(text)) {
    const value = parseObject(text.slice(0, end) + closers);
    if (value !== undefined) return value;
  }
  return {};
}
