/** The user's texts as token ids: most for calibration, some for measuring the loss. */
import { MillraceError } from "../core/errors.js";
import { readText } from "../core/read-text.js";
import { parseChats } from "../quality/check.js";
import type { ChatTemplate } from "../text/template/chat-template.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";

export interface Calibration {
  /** Windows of at least two token ids. */
  readonly windows: readonly (readonly number[])[];
  readonly heldOut: readonly (readonly number[])[];
}

/** Tokens per window, as in perplexity benchmarks. */
export const WINDOW = 512;
/** Tokens have fewer characters on average, so no more of a text is needed. */
const MOST_CHARACTERS_PER_TOKEN = 64;
/** Interval of held-out windows. */
const HELD_OUT_EVERY = 8;
/** With fewer tokens, a long text would have no held-out window. */
export const LEAST_TOKENS = HELD_OUT_EVERY * WINDOW;
const MOST_HELD_OUT_TOKENS = 16_384;

/**
 * @param path chats as JSON lines, or any other text
 * @param maxTokens for calibration
 * @throws file_unreadable, and invalid_option if there are too few
 */
export function readCalibration(
  path: string,
  tokenizer: Tokenizer,
  chatTemplate: ChatTemplate | undefined,
  { contextLength, maxTokens }: { readonly contextLength: number; readonly maxTokens: number },
): Calibration {
  const text = readText(path, "texts");
  const window = Math.min(WINDOW, contextLength);
  const isChats = path.endsWith(".jsonl");
  const texts = isChats ? chatTexts(text, path, chatTemplate) : [text];
  // A chat template writes the special tokens itself, as for the server's chats.
  const addSpecial = !isChats || chatTemplate === undefined;
  const windows: number[][] = [];
  const heldOut: number[][] = [];
  let numTokens = 0;
  let numHeldOut = 0;
  for (const each of texts) {
    if (numTokens >= maxTokens) break;
    const ids = tokenizer.encode(each.slice(0, MOST_CHARACTERS_PER_TOKEN * maxTokens), {
      addSpecial,
      parseSpecial: true,
    });
    for (let start = 0; start < ids.length && numTokens < maxTokens; start += window) {
      const part = ids.slice(start, start + window);
      if (part.length < 2) continue;
      const isHeldOut = (windows.length + heldOut.length) % HELD_OUT_EVERY === HELD_OUT_EVERY - 1;
      if (isHeldOut && numHeldOut < MOST_HELD_OUT_TOKENS) {
        heldOut.push(part);
        numHeldOut += part.length;
      } else {
        windows.push(part);
        numTokens += part.length;
      }
    }
  }
  if (heldOut.length > 0) return { windows, heldOut };
  throw new MillraceError(
    "invalid_option",
    `expected at least ${HELD_OUT_EVERY} texts or windows of ${window} tokens in ${path}, got ${windows.length}`,
    {
      hint: "give more text: 100,000 tokens of your own prompts and answers are plenty",
    },
  );
}

function chatTexts(text: string, path: string, template: ChatTemplate | undefined): readonly string[] {
  return parseChats(text, path).map(({ messages }) =>
    template === undefined
      ? messages.map(({ content }) => content).join("\n")
      : template.render({ messages, addGenerationPrompt: false }),
  );
}
