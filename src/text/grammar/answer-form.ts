/**
 * The form that a request prescribes for its answer, as data: a schema, an expression, strings to choose from, or a
 * grammar of the client's own.
 */
import { MillraceError } from "../../core/errors.js";
import { isTooDeep, MAX_JSON_DEPTH } from "../../core/json-body.js";
import { GrammarWriter, oneOfLiterals } from "./ebnf.js";
import { schemaExpression } from "./json-schema.js";
import { plainRegexExpression } from "./pattern-expression.js";
import { RegexError } from "./regex.js";

/** A form that a grammar can offer as one alternative among others. */
export type PartForm =
  | { readonly kind: "schema"; readonly schema: unknown; readonly param: string }
  /** A schema as text. */
  | { readonly kind: "schemaText"; readonly text: string; readonly param: string }
  | { readonly kind: "regex"; readonly pattern: string; readonly param: string }
  | { readonly kind: "choice"; readonly choices: readonly string[] };

/** `param` names the request's field. */
export type AnswerForm = PartForm | { readonly kind: "grammar"; readonly text: string; readonly param: string };

/** The form's grammar in EBNF. */
export function grammarOfForm(form: AnswerForm): string {
  if (form.kind === "grammar") return form.text;
  const writer = new GrammarWriter();
  return writer.text(formExpression(writer, form));
}

export function formExpression(writer: GrammarWriter, form: PartForm): string {
  switch (form.kind) {
    case "schema":
      return schemaExpression(writer, form.schema, form.param);
    case "schemaText":
      return schemaExpression(writer, parseSchema(form.text, form.param), form.param);
    case "choice":
      return oneOfLiterals(writer, form.choices);
    case "regex":
      return fromRegex(writer, form.pattern, form.param);
  }
}

function parseSchema(text: string, param: string): unknown {
  const refuse = (problem: string) =>
    new MillraceError("invalid_parameter", `${param}: expected ${problem}`, { param });
  if (isTooDeep(Buffer.from(text))) throw refuse(`JSON nested at most ${MAX_JSON_DEPTH} deep, got more`);
  try {
    return JSON.parse(text);
  } catch {
    throw refuse("a JSON schema, got text that is not JSON");
  }
}

function fromRegex(writer: GrammarWriter, pattern: string, param: string): string {
  try {
    return plainRegexExpression(writer, pattern);
  } catch (thrown) {
    if (!(thrown instanceof RegexError)) throw thrown;
    throw new MillraceError("invalid_parameter", `${param}: ${thrown.message}`, { param });
  }
}
