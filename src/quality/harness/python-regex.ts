/** Python's regular expressions on a model's answers: translates the syntax to JavaScript's, and limits the time. */
import { createContext, Script } from "node:vm";

/** Time limit of a match, for patterns that backtrack without end. */
const REGEX_MS = 1000;
/** Syntax that the two languages write differently, and the brackets of character classes. */
const PART = /\\([\s\S])|\[\^?\]?|[\]^$.]|\(\?P<\w+>|\(\?P=\w+\)|\(\?#[^)]*\)|\{(?:\d+(?:,\d*)?|,\d+)\}|[{}]/g;
const INLINE_FLAGS = /^\(\?([aimsux]+)\)/;
const END = "(?![\\s\\S])";

/** Matches like Python's expression. Throws SyntaxError if JavaScript has no such expression. */
export function javascriptRegex(python: string): RegExp {
  const inline = INLINE_FLAGS.exec(python);
  const flags = new Set<string>(["g", "u", ...(inline?.[1] ?? "")]);
  if (flags.has("x") || flags.has("a")) throw new SyntaxError("the flags x and a are not supported");
  let isInClass = false;
  const source = python.slice(inline?.[0].length ?? 0).replace(PART, (part: string, escaped: string | undefined) => {
    if (escaped !== undefined) return escapeOf(escaped, isInClass);
    if (isInClass) {
      isInClass = part !== "]";
      return isInClass && /^[[{}]/.test(part) ? part.replace(/[[\]{}]/g, "\\$&") : part;
    }
    if (part.startsWith("[")) {
      isInClass = true;
      // A bracket at the start of a class is one of its characters.
      return part.endsWith("]") ? `${part.slice(0, -1)}\\]` : part;
    }
    return outsideClass(part, flags);
  });
  return new RegExp(source, [...flags].join(""));
}

function outsideClass(part: string, flags: ReadonlySet<string>): string {
  if (part === ".") return flags.has("s") ? part : "[^\\n]";
  // Python's $ also matches before a line feed at the end of the text.
  if (part === "$") return flags.has("m") ? part : `(?=\\n?${END})`;
  if (part.startsWith("(?#")) return "";
  if (part.startsWith("(?P<")) return part.replace("P", "");
  if (part.startsWith("(?P=")) return `\\k<${part.slice(4, -1)}>`;
  if (part.startsWith("{,")) return `{0${part.slice(1)}`;
  return /^[\]{}]$/.test(part) ? `\\${part}` : part;
}

/** Python's classes cover Unicode; JavaScript's Unicode mode refuses needless escapes. */
function escapeOf(character: string, isInClass: boolean): string {
  switch (character) {
    case "d":
      return "\\p{Nd}";
    case "w":
      return isInClass ? "\\p{L}\\p{N}_" : "[\\p{L}\\p{N}_]";
    case "A":
      return "(?<![\\s\\S])";
    case "Z":
      return END;
    default:
      return /[a-zA-Z0-9^$\\.*+?()[\]{}|/]/.test(character) || (isInClass && character === "-")
        ? `\\${character}`
        : character;
  }
}

const context = createContext({});
const MATCHES = new Script("Array.from(text.matchAll(regex), (match) => [...match])");
const REST = new Script('text.replace(regex, "")');

/** Python's `findall`: each match as a whole, as its only group, or as all its groups. Undefined: it took too long. */
export function findAll(regex: RegExp, text: string): readonly (string | readonly string[])[] | undefined {
  const matches = bounded<(string | undefined)[][]>(MATCHES, regex, text);
  return matches?.map(([whole = "", ...groups]) => {
    const texts = groups.map((group) => group ?? "");
    return texts.length === 0 ? whole : texts.length === 1 ? texts[0]! : texts;
  });
}

/** The text without the matches. Undefined: matching took too long. */
export const withoutMatches = (regex: RegExp, text: string): string | undefined => bounded<string>(REST, regex, text);

function bounded<T>(script: Script, regex: RegExp, text: string): T | undefined {
  Object.assign(context, { regex, text });
  try {
    return script.runInContext(context, { timeout: REGEX_MS }) as T;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined;
    throw thrown;
  }
}
