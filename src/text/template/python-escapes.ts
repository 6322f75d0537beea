/**
 * Backslashes in the texts of a template's tags, as Python reads them: the library refuses those that it has no
 * character for.
 */

/** Escapes that the library reads itself, `\u1234` and `\x41` too. It refuses names (`\N{…}`) and false numbers. */
const READ_BY_LIBRARY = /[ntrbfv'"\\uxUN]/;
/** Characters by their number in octal or in eight digits, and BEL, which the library has no escapes for. */
const NUMBERED = /\\(?:([0-7]{1,3})|U([0-9a-fA-F]{8})|a)/y;

/**
 * A backslash at a line's end joins the lines, as in the texts that Mistral Small 3.1's template is published with;
 * before characters that make no escape it stands for itself. In one pass: templates come from strangers.
 */
export function withPythonEscapes(source: string): string {
  let out = "";
  let from = 0;
  let quote = "";
  let isInTag = false;
  /** Braces that are open within the tag, as of dicts: two that close do not end it then. */
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

/** The escape at this place in a form that the library reads; undefined: it is none by number, nor BEL. */
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
