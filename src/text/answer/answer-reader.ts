/** Splits an answer's text, as it arrives, into reasoning, content and calls. */
import { type AnswerPart, appendPart } from "./answer-part.js";
import type { ToolCallFormat } from "./call-format.js";
import { type ReasoningMarkers, ReasoningSplitter } from "./reasoning.js";
import { ToolCallParser, type ToolCallParserOptions } from "./tool-call-parser.js";

/** Reads an answer's text as it arrives; the result does not depend on how the text is cut into pieces. */
export interface PartReader {
  /** The text that comes next is reasoning. */
  readonly isReasoning: boolean;
  /** The reader ignores all further text. */
  readonly isComplete: boolean;
  push(text: string): AnswerPart[];
  /** Ends the answer and returns its remaining parts. */
  flush(): AnswerPart[];
}

interface AnswerReaderOptions {
  /** Absent: the reader splits off no reasoning. */
  readonly reasoning?: { readonly markers: ReasoningMarkers; readonly startsInside: boolean } | undefined;
  /** Absent: the reader splits off no calls. */
  readonly toolCalls?: (ToolCallParserOptions & { readonly format: ToolCallFormat }) | undefined;
}

/**
 * @example const reader = new AnswerReader({ reasoning: { markers: THINK, startsInside: true } });
 *   reader.push("hm</think>yes")
 */
export class AnswerReader implements PartReader {
  readonly #reasoning: ReasoningSplitter | undefined;
  readonly #calls: ToolCallParser | undefined;

  constructor({ reasoning, toolCalls }: AnswerReaderOptions) {
    // A grammar enforces the ends of thoughts.
    const { format, isHeld = false } = toolCalls ?? {};
    const opener = format?.endsThought === true && !isHeld ? format.openers[0] : undefined;
    this.#reasoning = reasoning && new ReasoningSplitter(reasoning.markers, reasoning.startsInside, opener);
    this.#calls = toolCalls === undefined ? undefined : new ToolCallParser(toolCalls.format, toolCalls);
  }

  get isReasoning(): boolean {
    return this.#reasoning?.isReasoning === true;
  }

  get isComplete(): boolean {
    return this.#calls?.isComplete === true;
  }

  push(text: string): AnswerPart[] {
    const split = this.#reasoning?.push(text) ?? { reasoning: "", content: text };
    return this.#join(split.reasoning, this.#readCalls(split.content));
  }

  flush(): AnswerPart[] {
    const split = this.#reasoning?.flush() ?? { reasoning: "", content: "" };
    const parts = this.#readCalls(split.content);
    for (const part of this.#calls?.flush() ?? []) appendPart(parts, part);
    return this.#join(split.reasoning, parts);
  }

  #readCalls(content: string): AnswerPart[] {
    if (this.#calls !== undefined) return this.#calls.push(content);
    return content === "" ? [] : [{ kind: "content", text: content }];
  }

  #join(reasoning: string, parts: AnswerPart[]): AnswerPart[] {
    return reasoning === "" ? parts : [{ kind: "reasoning", text: reasoning }, ...parts];
  }
}
