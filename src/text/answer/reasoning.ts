/**
 * Splits a model's reasoning (`<think>…</think>` at the start of its turn) from its answer while the text arrives. The
 * result does not depend on how the text is cut into pieces. White space around the markers belongs to neither part.
 */

export const REASONING_OPEN = "<think>";
export const REASONING_CLOSE = "</think>";

export const REASONING_PARSERS = ["auto", "none", "think"] as const;
export type ReasoningParserName = (typeof REASONING_PARSERS)[number];

/** Texts that may be special tokens; the decoder must keep them. */
export const REASONING_MARKERS: readonly string[] = [REASONING_OPEN, REASONING_CLOSE];

interface ReasoningSplit {
  readonly reasoning: string;
  readonly content: string;
}

export function mentionsReasoning(templateSource: string): boolean {
  return templateSource.includes(REASONING_OPEN);
}

/** Whether an answer to this prompt begins inside the reasoning. */
export function endsInsideReasoning(prompt: string): boolean {
  return prompt.trimEnd().endsWith(REASONING_OPEN);
}

/** The text that ends the reasoning when a prompt ends inside it. */
export const REASONING_END = `\n${REASONING_CLOSE}\n\n`;

/** The number of characters at the end of the text that may be the beginning of the marker. */
function partialLength(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}

/** @example new ReasoningSplitter(false).push("<think>hm</think>yes") // { reasoning: "hm", content: "yes" } */
export class ReasoningSplitter {
  #state: "start" | "reasoning" | "content";
  #held = "";
  /** White space at the start of a part is dropped. */
  #isAtPartStart = true;

  constructor(startsInside: boolean) {
    this.#state = startsInside ? "reasoning" : "start";
  }

  get isReasoning(): boolean {
    return this.#state === "reasoning";
  }

  push(text: string): ReasoningSplit {
    this.#held += text;
    if (this.#state === "start") this.#readStart();
    const reasoning = this.#state === "reasoning" ? this.#readReasoning() : "";
    // The content of an answer without reasoning keeps its leading white space.
    return { reasoning, content: this.#state === "content" ? this.#takeHeld() : "" };
  }

  /** The answer has ended: held text belongs to the current part. */
  flush(): ReasoningSplit {
    const text = this.#held;
    this.#held = "";
    if (this.#state === "reasoning")
      return { reasoning: this.#isAtPartStart ? text.trim() : text.trimEnd(), content: "" };
    return { reasoning: "", content: this.#state === "start" ? text : "" };
  }

  #readStart(): void {
    const text = this.#held.trimStart();
    if (text.startsWith(REASONING_OPEN)) {
      this.#state = "reasoning";
      this.#held = text.slice(REASONING_OPEN.length);
    } else if (!REASONING_OPEN.startsWith(text)) {
      this.#state = "content";
      this.#isAtPartStart = false;
    }
  }

  /** Holds back text that may be the closing marker, and the white space before it. */
  #readReasoning(): string {
    if (this.#isAtPartStart) this.#held = this.#held.trimStart();
    const end = this.#held.indexOf(REASONING_CLOSE);
    const isOver = end !== -1;
    const open = isOver
      ? this.#held.slice(0, end)
      : this.#held.slice(0, -partialLength(this.#held, REASONING_CLOSE) || undefined);
    const reasoning = open.trimEnd();
    this.#held = this.#held.slice(isOver ? end + REASONING_CLOSE.length : reasoning.length);
    if (reasoning !== "") this.#isAtPartStart = false;
    if (isOver) {
      this.#state = "content";
      this.#isAtPartStart = true;
    }
    return reasoning;
  }

  #takeHeld(): string {
    const text = this.#isAtPartStart ? this.#held.trimStart() : this.#held;
    this.#held = "";
    if (text !== "") this.#isAtPartStart = false;
    return text;
  }
}
