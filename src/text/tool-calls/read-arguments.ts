/** A call's arguments as a value, for APIs whose calls carry one in place of the model's text. */

type Closer = "}" | "]";

interface Cut {
  readonly end: number;
  /** What closes the brackets open there. */
  readonly closers: string;
}

/** Where the text ends, and the last place before it where every open bracket can be closed. */
function scan(text: string): { readonly tail: Cut; readonly safe: Cut | undefined } {
  const open: Closer[] = [];
  let isInString = false;
  let safe: Cut | undefined;
  const closers = () => open.toReversed().join("");
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (isInString) {
      if (char === "\\") i++;
      else if (char === '"') isInString = false;
    } else if (char === '"') isInString = true;
    else if (char === "{" || char === "[") {
      open.push(char === "{" ? "}" : "]");
      safe = { end: i + 1, closers: closers() };
    } else if (char === "}" || char === "]") open.pop();
    else if (char === ",") safe = { end: i, closers: closers() };
  }
  return { tail: { end: text.length, closers: (isInString ? '"' : "") + closers() }, safe };
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
 * Arguments that break off, as where an answer's length cut them, are read as far as they came; what cannot be read is an empty object.
 *
 * @example readArguments('{"city": "Par') // { city: "Par" }
 */
export function readArguments(text: string): Readonly<Record<string, unknown>> {
  const whole = parseObject(text);
  if (whole !== undefined) return whole;
  const { tail, safe } = scan(text);
  for (const cut of safe === undefined ? [tail] : [tail, safe]) {
    const value = parseObject(text.slice(0, cut.end) + cut.closers);
    if (value !== undefined) return value;
  }
  return {};
}
