/** Converts errors of templates to the server's errors. */
import { MillraceError } from "../../core/errors.js";
import { reasonOf } from "./parse-template.js";
import { OverBudget } from "./render-budget.js";

/** A refusal by the template itself, through `raise_exception`. */
export class TemplateRefusal extends Error {}

export function toTemplateError(thrown: unknown): MillraceError {
  if (thrown instanceof TemplateRefusal) {
    return new MillraceError(
      "template_failed",
      `expected a conversation the model's chat template takes, got its refusal: ${reasonOf(thrown)}`,
      {
        param: "messages",
        hint: "Change the conversation as the template's message says.",
        cause: thrown,
      },
    );
  }
  if (thrown instanceof OverBudget) {
    return new MillraceError(
      "template_failed",
      `expected the model's chat template to end, got one that asks for ${thrown.message}`,
      {
        param: "messages",
        hint: "No sound template comes near this bound: use another --chat-template, or the completions endpoint, which needs none.",
        cause: thrown,
      },
    );
  }
  return new MillraceError(
    "template_failed",
    `expected the model's chat template to render, got: ${reasonOf(thrown)}`,
    {
      param: "messages",
      hint: "The template and this conversation do not fit each other; check roles, content and chat_template_kwargs.",
      cause: thrown,
    },
  );
}
