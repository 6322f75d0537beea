/** Requests held to a grammar that is written already. */
import { recipeText } from "../../src/text/answer/answer-recipe.js";

/** @param grammar in EBNF */
export const recipeOf = (grammar: string): string => recipeText({ kind: "grammar", text: grammar, param: "grammar" });
