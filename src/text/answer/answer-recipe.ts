/**
 * The required form of an answer, as data that can be sent as text. An endpoint makes the recipe; the thread that
 * compiles grammars converts it to EBNF, because converting a client's schema can take long.
 */
import { MillraceError } from "../../core/errors.js";
import { type AnswerForm, grammarOfForm, type PartForm } from "../grammar/answer-form.js";
import { assertCompilable } from "../grammar/ebnf-size.js";
import {
  type CallGrammarOptions,
  callOrFormGrammar,
  channelGrammar,
  forcedCallGrammar,
  freeCallGrammar,
  type TextGrammarOptions,
} from "./call-grammar.js";

/**
 * Calls are forced (of a named function or of any), free, or an alternative to a form; or they are messages among
 * Harmony's.
 */
type CallRecipe =
  | (CallGrammarOptions & { readonly kind: "forcedCalls"; readonly isNamed: boolean })
  | (TextGrammarOptions & { readonly kind: "freeCalls" })
  | (TextGrammarOptions & { readonly kind: "callsOrForm"; readonly form: PartForm })
  | (CallGrammarOptions & { readonly kind: "channels"; readonly form: PartForm | undefined });

export type AnswerRecipe = AnswerForm | CallRecipe;

/** The limit in characters of JSON: twice the limit for a grammar. */
export const MAX_RECIPE_LENGTH = 512 * 1024;

/** The recipe as text. Equal recipes give equal texts, so that their grammar is compiled once. */
export function recipeText(recipe: AnswerRecipe): string {
  // The length is estimated first, because serialising millions of characters only to count them is slow.
  if (leastLength(recipe, MAX_RECIPE_LENGTH) > MAX_RECIPE_LENGTH) throw tooLong();
  const text = JSON.stringify(recipe);
  if (text.length > MAX_RECIPE_LENGTH) throw tooLong();
  return text;
}

/** The number of characters in the value's names and texts; counting stops above `most`. */
function leastLength(value: unknown, most: number): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 1;
  let length = 0;
  for (const [name, inner] of Object.entries(value)) {
    if (!Array.isArray(value)) length += name.length;
    length += leastLength(inner, most - length);
    if (length > most) break;
  }
  return length;
}

function tooLong(): MillraceError {
  return new MillraceError(
    "invalid_grammar",
    `expected schemas, patterns, choices and grammars of at most ${MAX_RECIPE_LENGTH} characters as JSON, got more`,
    { hint: "Leave out what says nothing about the answer's form, such as long descriptions." },
  );
}

/**
 * @returns the recipe in EBNF. Throws coded errors for a malformed schema, pattern or grammar, and for one too large to
 * compile.
 */
export function grammarOfRecipe(text: string): string {
  const grammar = write(JSON.parse(text) as AnswerRecipe);
  assertCompilable(grammar);
  return grammar;
}

function write(recipe: AnswerRecipe): string {
  switch (recipe.kind) {
    case "forcedCalls":
      return forcedCallGrammar(recipe, recipe.isNamed);
    case "freeCalls":
      return freeCallGrammar(recipe);
    case "callsOrForm":
      return callOrFormGrammar(recipe, recipe.form);
    case "channels":
      return channelGrammar(recipe, recipe.form);
    default:
      return grammarOfForm(recipe);
  }
}
