/** What an answer may be, as a request states it. */

export const GRAMMAR_KINDS = ["json_object", "json_schema", "regex", "choice", "ebnf"] as const;
export type GrammarKind = (typeof GRAMMAR_KINDS)[number];

export interface Grammar {
  readonly kind: GrammarKind;
  /** The schema, the regular expression, the choices (a JSON array of strings) or the grammar; empty for json_object. */
  readonly text: string;
}

/** Equal grammars are compiled once. */
export function grammarKey({ kind, text }: Grammar): string {
  return `${kind}:${text}`;
}

/** Any of the choices and nothing else, as EBNF. */
export function ebnfOfChoices(text: string): string {
  const choices = JSON.parse(text) as readonly string[];
  return `root ::= ${choices.map(ebnfLiteral).join(" | ")}\n`;
}

/** @example ebnfLiteral('say "hi"') // '"say \\"hi\\""' */
function ebnfLiteral(text: string): string {
  const escaped = [...text].map((character) => {
    if (character === '"' || character === "\\") return `\\${character}`;
    const isPlain = character >= " " && character <= "~";
    return isPlain ? character : `\\U${character.codePointAt(0)!.toString(16).padStart(8, "0")}`;
  });
  return `"${escaped.join("")}"`;
}
