/**
 * Training examples for a student of any family: chats in the student's own template and token ids, as the engine
 * computes them when it serves the student.
 */
import { MillraceError } from "../core/errors.js";
import type { ChatTemplate } from "../text/template/chat-template.js";
import { chatPromptIds } from "../text/text-side.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import type { AnsweredPrompt } from "./answers.js";

/** A line of the trainer's files, with the trainer's field names. */
export interface Example {
  readonly ids: readonly number[];
  /** Number of leading prompt ids, which the loss leaves out. */
  readonly num_prompt: number;
}

interface Reader {
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate;
}

/** A stand-in answer: no letters that a tokenizer could merge with the text after it, and in no template. */
const ANSWER = "0123456789 9876543210";

/**
 * Token ids after an answer, up to its end token. Throws template_failed if the template ends answers with nothing that
 * a model can generate.
 */
export function endOfAnswer({ tokenizer, template }: Reader): readonly number[] {
  const messages = [
    { role: "user", content: "?" },
    { role: "assistant", content: ANSWER },
  ];
  const text = template.render({ messages, addGenerationPrompt: false });
  const at = text.lastIndexOf(ANSWER);
  const rest = at < 0 ? "" : text.slice(at + ANSWER.length);
  const ids = tokenizer.encode(rest, { addSpecial: false, parseSpecial: true });
  const end = ids.findIndex((id) => tokenizer.stopIds.has(id));
  if (end >= 0) return ids.slice(0, end + 1);
  if (tokenizer.eosId !== undefined) return [tokenizer.eosId];
  throw new MillraceError(
    "template_failed",
    "expected a chat template that ends answers, got one without an end token",
    {
      hint: "a student that never ends its answers cannot be trained: give one whose tokenizer has an end-of-text token",
    },
  );
}

export interface Examples {
  readonly examples: readonly Example[];
  /** Number of omitted chats, which exceed the context. */
  readonly numTooLong: number;
}

/** Training examples from the complete answers. @param maxLength in tokens, prompt and answer together */
export function examplesOf(items: readonly AnsweredPrompt[], reader: Reader, maxLength: number): Examples {
  const end = endOfAnswer(reader);
  const { tokenizer, template } = reader;
  const all = items
    .filter(({ answer }) => answer.end === "stop")
    .map(({ prompt, answer }): Example => {
      const promptIds = chatPromptIds(tokenizer, template, prompt.messages);
      const answerIds = tokenizer.encode(answer.text, { addSpecial: false, parseSpecial: false });
      return { ids: [...promptIds, ...answerIds, ...end], num_prompt: promptIds.length };
    });
  const examples = all.filter(({ ids }) => ids.length <= maxLength);
  return { examples, numTooLong: all.length - examples.length };
}
