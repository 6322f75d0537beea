/**
 * Extracts the tool calls from an answer's text while it arrives. The result does not depend on how the text is cut
 * into pieces, and text that turns out not to be a call becomes content. A call is reported as soon as its format shows
 * that it is one; if it is cut off later, the arguments received so far remain.
 */
import { type AnswerPart, appendPart } from "./answer-part.js";
import type { CallableTools, CallRegion, CallSink, ToolCallFormat } from "./call-format.js";
import { isJsonSpace } from "./json-scanner.js";

export interface ToolCallParserOptions {
  /** A call of any other function is content. */
  readonly tools: CallableTools;
  /** The reader stops after the first call. */
  readonly isSingle: boolean;
  /** Whether a grammar restricts calls to the format's own openers; text after other openers is content. */
  readonly isHeld?: boolean;
  /** The beginning of the answer that a forced call's prompt already contains. */
  readonly opening?: string;
}

/** @example new ToolCallParser(hermes, options).push('<tool_call>{"name": "now", "arguments": {}}</tool_call>') */
export class ToolCallParser {
  readonly #format: ToolCallFormat;
  readonly #openers: readonly string[];
  readonly #startOpeners: readonly string[];
  /** The openers, and functions' names in formats whose calls begin with a name. */
  readonly #nameOpeners: readonly string[];
  readonly #isSingle: boolean;
  readonly #isForced: boolean;
  readonly #sink: CallSink;
  #parts: AnswerPart[] = [];
  /**
   * Text of earlier pieces that may still be part of a call. It is kept apart from the buffer, because indexing a
   * concatenated string copies it.
   */
  #held = "";
  /** The current piece: the text from #start on may still be part of a call, the text from #position on is unread. */
  #buffer = "";
  #start = 0;
  #position = 0;
  #region: CallRegion | undefined;
  /** A call of this region has been reported, so its opener can no longer become text. */
  #hasTaken = false;
  #numCalls = 0;
  #numFinishedCalls = 0;
  #hasContent = false;
  /** White space that becomes content only if more content follows or no call does. */
  #space = "";

  constructor(format: ToolCallFormat, options: ToolCallParserOptions) {
    this.#format = format;
    this.#openers = [...format.openers, ...((options.isHeld === true ? undefined : format.looseOpeners) ?? [])];
    this.#startOpeners = [...format.startOpeners, ...this.#openers];
    const names = format.startsWithName === true ? [...options.tools.keys()] : [];
    // Some templates show earlier calls with a blank after their names.
    const heads = names.flatMap((name) => [name, `${name} `]);
    this.#nameOpeners = [...this.#startOpeners, ...heads.map((head) => `${head}${format.spelling.beforeArguments}`)];
    this.#isSingle = options.isSingle;
    this.#isForced = (options.opening ?? "") !== "";
    this.#sink = {
      tools: options.tools,
      isHeld: options.isHeld === true,
      begin: (name) => this.#begin(name),
      arguments: (text) => {
        if (text !== "") appendPart(this.#parts, { kind: "arguments", index: this.#numCalls - 1, text });
      },
      end: () => {
        this.#numFinishedCalls++;
      },
    };
    this.#buffer = options.opening ?? "";
    this.#run();
  }

  /** The single requested call is complete. */
  get isComplete(): boolean {
    return this.#isSingle && this.#numFinishedCalls > 0;
  }

  push(text: string): AnswerPart[] {
    this.#buffer += text;
    this.#run();
    return this.#drain();
  }

  /**
   * The answer has ended: held text becomes content. After a forced call it is the beginning of another call that was
   * cut off, and is dropped.
   */
  flush(): AnswerPart[] {
    if (this.#isForced && this.#numCalls > 0) return this.#drain();
    while (!this.isComplete && this.#region?.cutOff?.() !== true && this.#held !== "") {
      this.#region = undefined;
      this.#release();
      this.#run();
    }
    if (this.#numCalls === 0) this.#emitContent(this.#space);
    this.#space = "";
    return this.#drain();
  }

  #drain(): AnswerPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  #run(): void {
    while (this.#position < this.#buffer.length && !this.isComplete) {
      const char = this.#buffer[this.#position]!;
      if (this.#region === undefined) this.#readText();
      else this.#readCall(this.#region, char);
    }
    this.#held += this.#buffer.slice(this.#start, this.#position);
    this.#buffer = "";
    this.#position = 0;
    this.#start = 0;
  }

  #readText(): void {
    const openers = this.#openersHere();
    const held = this.#held + this.#buffer.slice(this.#start, this.#position + 1);
    if (!openers.some((opener) => opener.startsWith(held))) {
      this.#release();
      return;
    }
    this.#position++;
    if (!openers.includes(held)) return;
    this.#region = this.#format.startRegion(held, this.#sink);
    this.#hasTaken = false;
  }

  #openersHere(): readonly string[] {
    if (this.#hasContent || this.#numCalls > 0) return this.#openers;
    // For a grammar, white space before a name is the beginning of text.
    return this.#sink.isHeld && this.#space !== "" ? this.#startOpeners : this.#nameOpeners;
  }

  #readCall(region: CallRegion, char: string): void {
    const step = region.push(char);
    if (step === "rejected") {
      this.#region = undefined;
      if (this.#hasTaken) this.#rewind();
      else this.#release();
      return;
    }
    this.#position++;
    if (step === "held") return;
    this.#hasTaken = true;
    this.#held = "";
    this.#start = this.#position;
    if (step === "ended") this.#region = undefined;
  }

  /** Returns to the first held character. */
  #rewind(): void {
    if (this.#held !== "") {
      this.#buffer = this.#held + this.#buffer;
      this.#held = "";
    }
    this.#position = this.#start;
  }

  /** No call begins at the first held character: releases it as text and continues after it. */
  #release(): void {
    this.#rewind();
    const char = this.#buffer[this.#start]!;
    this.#start++;
    this.#position = this.#start;
    if (isJsonSpace(char)) {
      this.#space += char;
      return;
    }
    if (this.#hasContent || this.#numCalls === 0) this.#emitContent(this.#space);
    this.#space = "";
    this.#hasContent = true;
    this.#emitContent(char);
  }

  #begin(name: string): void {
    if (!this.#hasContent) this.#space = "";
    this.#parts.push({ kind: "call", index: this.#numCalls++, name });
  }

  #emitContent(text: string): void {
    if (text !== "") appendPart(this.#parts, { kind: "content", text });
  }
}
