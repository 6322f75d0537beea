/** Converts backslashes in the texts of a template's tags to Python's reading: the library refuses unknown escapes. */

/**
 * Escapes that the library reads itself, including `\u1234` and `\x41`. It refuses names (`\N{…}`) and malformed
 * numbers.
 */
const READ_BY_LIBRARY = /[ntrbfv'"\\uxUN]/;
/** Characters by their number in octal or in eight digits, and BEL: the library lacks these escapes. */
const NUMBERED = /\\(?:([0-7]{1,3})|U([0-9a-fA-F]{8})|a)/y;

/**
 * A backslash at a line's end joins the lines, as in Mistral Small 3.1's published template; before a character that
 * makes no escape it stays a backslash. Works in one pass, because templates come from strangers.
 */
export function withPythonEscapes(source: string): string {
  let out = "";
  let from = 0;
  let quote = "";
  let isInTag = false;
  /** Number of open braces within the tag, as of dicts: while there are any, two closing braces do not end the tag. */
  let depth = 0;
  for (let at = 0; at < source.length; at++) {
    const [char, next] = [source[at]!, source[at + 1] ?? ""];
    if (quote !== "") {
      if (char === quote) quote = "";
      if (char !== "\\") continue;
      const numbered = numberedEscape(source, at);
      if (numbered !== undefined) {
        out += source.slice(from, at) + numbered.written;
        from = at + numbered.length;
        at = from - 1;
        continue;
      }
      if (!READ_BY_LIBRARY.test(next)) {
        out += source.slice(from, at) + (next === "\n" ? "" : "\\\\");
        from = at + (next === "\n" ? 2 : 1);
      }
      at++;
    } else if (isInTag) {
      if (char === "'" || char === '"') quote = char;
      else if (char === "{") depth++;
      else if (char === "}" && depth > 0) depth--;
      else isInTag = !((char === "}" || char === "%") && next === "}");
    } else if (char === "{" && next === "#") {
      const end = source.indexOf("#}", at);
      at = end === -1 ? source.length : end;
    } else if (char === "{" && (next === "{" || next === "%")) {
      isInTag = true;
      depth = 0;
      at++;
    }
  }
  return out + source.slice(from);
}

/** The escape at this position in a form that the library reads; undefined: it is neither a numbered escape nor BEL. */
function numberedEscape(source: string, at: number): { readonly written: string; readonly length: number } | undefined {
  NUMBERED.lastIndex = at;
  const found = NUMBERED.exec(source);
  if (found === null) return undefined;
  const [{ length }, octal, long] = found;
  const code = octal !== undefined ? Number.parseInt(octal, 8) : long !== undefined ? Number.parseInt(long, 16) : 7;
  if (code > 0x10ffff) return undefined;
  const units = String.fromCodePoint(code).split("");
  return { written: units.map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""), length };
}
