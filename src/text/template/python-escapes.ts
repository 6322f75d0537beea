/**
 * Backslashes in the texts of a template's tags, as Python reads them: the library refuses those that it has no
 * character for.
 */

/** What the library reads itself: `\u1234` and `\x41` too. */
const READ_BY_LIBRARY = /[ntrbfv'"\\ux]/;

/**
 * A backslash at a line's end joins the lines, as in the texts that Mistral Small 3.1's template is published with;
 * before other characters it stands for itself. In one pass: templates come from strangers.
 */
export function withPythonEscapes(source: string): string {
  let out = "";
  let from = 0;
  let quote = "";
  let isInTag = false;
  for (let at = 0; at < source.length; at++) {
    const [char, next] = [source[at]!, source[at + 1] ?? ""];
    if (quote !== "") {
      if (char === quote) quote = "";
      if (char !== "\\") continue;
      if (!READ_BY_LIBRARY.test(next)) {
        out += source.slice(from, at) + (next === "\n" ? "" : "\\\\");
        from = at + (next === "\n" ? 2 : 1);
      }
      at++;
    } else if (isInTag) {
      if (char === "'" || char === '"') quote = char;
      isInTag = !((char === "}" || char === "%") && next === "}");
    } else if (char === "{" && next === "#") {
      const end = source.indexOf("#}", at);
      at = end === -1 ? source.length : end;
    } else isInTag = char === "{" && (next === "{" || next === "%");
  }
  return out + source.slice(from);
}
