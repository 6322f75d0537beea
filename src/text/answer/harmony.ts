/**
 * Harmony, the form of gpt-oss's answers: messages whose headers have a channel and, optionally, a recipient.
 *
 *   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
 *   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
 *
 * The recipient may precede the channel. analysis is reasoning; a message to a function is a call; all other messages
 * are content. The result does not depend on how the text is cut into pieces.
 */
import { type AnswerPart, appendPart } from "./answer-part.js";
import type { PartReader } from "./answer-reader.js";
import type { CallSyntax } from "./call-format.js";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
const END = "<|end|>";
const CONSTRAIN = "<|constrain|>";
const CALL = "<|call|>";
const RETURN = "<|return|>";
/** Ends of a message, as ANY_END finds them; a start without one of them also ends the message. */
const ENDS: readonly string[] = [END, CALL, RETURN, START];
const ANY_END = /<\|(?:end|call|return|start)\|>/;
/**
 * Most characters of a header; longer text is content. Without the limit, an endless header would be read again for
 * each token.
 */
const MAX_HEADER_LENGTH = 4096;
const ASSISTANT = `${START}assistant`;
const FUNCTIONS = "functions.";
/** Beginnings of a header; an answer with another beginning has no headers and is content. */
const HEADER_STARTS: readonly string[] = [CHANNEL, START, MESSAGE, CONSTRAIN, "to="];

/** The spelling of messages, for prompts and grammars. */
export const HARMONY = {
  thought: `${CHANNEL}analysis${MESSAGE}`,
  preamble: `${CHANNEL}commentary${MESSAGE}`,
  final: `${CHANNEL}final${MESSAGE}`,
  end: END,
  next: ASSISTANT,
  /** Both orders of a call's header, around the function's name. */
  calls: [
    { before: `${CHANNEL}commentary to=${FUNCTIONS}`, after: "" },
    { before: ` to=${FUNCTIONS}`, after: `${CHANNEL}commentary` },
  ],
  /** The text between a call's header and its arguments. */
  types: [` ${CONSTRAIN}json`, " json", ""],
  message: MESSAGE,
} as const;

export const harmony: CallSyntax = {
  name: "harmony",
  markers: [START, CHANNEL, MESSAGE, END, CONSTRAIN, CALL, RETURN],
  spelling: {
    start: "",
    beforeName: `${CHANNEL}commentary to=${FUNCTIONS}`,
    beforeArguments: ` ${CONSTRAIN}json${MESSAGE}`,
    afterArguments: "",
    between: `${END}${ASSISTANT}`,
    end: "",
  },
};

export const speaksHarmony = (templateSource: string): boolean =>
  [START, CHANNEL, MESSAGE].every((marker) => templateSource.includes(marker));

/**
 * The beginning of the answer's first header, where the prompt ends within the answer.
 * @example harmonyOpening("…<|start|>assistant<|channel|>final<|message|>Yes")
 */
export function harmonyOpening(prompt: string): string {
  const at = prompt.lastIndexOf(ASSISTANT);
  const begun = at === -1 ? "" : prompt.slice(at + ASSISTANT.length);
  if (ENDS.some((end) => begun.includes(end))) return "";
  const body = begun.indexOf(MESSAGE);
  return body === -1 ? begun : begun.slice(0, body + MESSAGE.length);
}

/** Whether an answer to this prompt may begin with any channel. */
export const awaitsChannel = (prompt: string): boolean => prompt.endsWith(ASSISTANT);

export interface HarmonyReaderOptions {
  /** The functions that may be called; messages to others are content. */
  readonly toolNames: ReadonlySet<string>;
  /** Whether the reader stops after the first call. */
  readonly isSingle: boolean;
  /** Whether reasoning is separate; otherwise it counts as content. */
  readonly hasReasoning: boolean;
  /** The beginning of the first header, which the prompt contains. */
  readonly opening: string;
}

type Kind = "reasoning" | "content" | "call";

/** @example new HarmonyReader(options).push("<|channel|>final<|message|>Yes") // [{ kind: "content", text: "Yes" }] */
export class HarmonyReader implements PartReader {
  readonly #options: HarmonyReaderOptions;
  /** Kind of the message whose text is being read; undefined: the reader is in a header. */
  #kind: Kind | undefined;
  #held = "";
  #isFirstHeader = true;
  #hasBody = false;
  /** Kinds of messages so far: later messages of the same kind become further paragraphs. */
  readonly #said = new Set<Kind>();
  #numCalls = 0;
  #numFinishedCalls = 0;
  #parts: AnswerPart[] = [];

  constructor(options: HarmonyReaderOptions) {
    this.#options = options;
    this.#held = options.opening;
    if (options.opening !== "") {
      this.#isFirstHeader = false;
      this.#run();
    }
  }

  get isReasoning(): boolean {
    return this.#kind === "reasoning";
  }

  get isComplete(): boolean {
    return this.#options.isSingle && this.#numFinishedCalls > 0;
  }

  push(text: string): AnswerPart[] {
    this.#held += text;
    this.#run();
    return this.#drain();
  }

  flush(): AnswerPart[] {
    if (this.#kind !== undefined) {
      this.#say(this.#held);
      this.#endMessage();
    } else if (this.#isFirstHeader && !isHeader(this.#held)) {
      this.#kind = "content";
      this.#say(this.#held);
    }
    // A truncated header has no text.
    this.#held = "";
    return this.#drain();
  }

  #drain(): AnswerPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  #run(): void {
    let goesOn = true;
    while (goesOn && !this.isComplete) goesOn = this.#kind === undefined ? this.#readHeader() : this.#readBody();
  }

  /** @returns whether there is more to read */
  #readHeader(): boolean {
    if (this.#isFirstHeader && !mayBeHeader(this.#held)) {
      this.#kind = "content";
      return true;
    }
    const at = this.#held.indexOf(MESSAGE);
    if (at > MAX_HEADER_LENGTH || (at === -1 && this.#held.length >= MAX_HEADER_LENGTH + MESSAGE.length)) {
      this.#isFirstHeader = false;
      this.#hasBody = false;
      this.#kind = "content";
      return true;
    }
    if (at === -1) return false;
    this.#open(this.#held.slice(0, at));
    this.#held = this.#held.slice(at + MESSAGE.length);
    return true;
  }

  #open(header: string): void {
    this.#isFirstHeader = false;
    this.#hasBody = false;
    const channel = /<\|channel\|>\s*([a-z]+)/.exec(header)?.[1];
    const recipient = /(?:^|\s|>)to=([^\s<]+)/.exec(header)?.[1];
    const name = recipient?.startsWith(FUNCTIONS) === true ? recipient.slice(FUNCTIONS.length) : undefined;
    if (name !== undefined && this.#options.toolNames.has(name)) {
      this.#kind = "call";
      this.#parts.push({ kind: "call", index: this.#numCalls++, name });
      return;
    }
    this.#kind = channel === "analysis" && this.#options.hasReasoning ? "reasoning" : "content";
  }

  #readBody(): boolean {
    const end = ANY_END.exec(this.#held);
    if (end === null) {
      const kept = partialEnd(this.#held);
      this.#say(this.#held.slice(0, this.#held.length - kept));
      this.#held = this.#held.slice(this.#held.length - kept);
      return false;
    }
    this.#say(this.#held.slice(0, end.index));
    this.#held = this.#held.slice(end.index + end[0].length);
    this.#endMessage();
    return true;
  }

  #say(text: string): void {
    const kind = this.#kind!;
    if (text === "") return;
    if (kind === "call") {
      appendPart(this.#parts, { kind: "arguments", index: this.#numCalls - 1, text });
      this.#hasBody = true;
      return;
    }
    const isNextParagraph = !this.#hasBody && this.#said.has(kind);
    appendPart(this.#parts, { kind, text: isNextParagraph ? `\n\n${text}` : text });
    this.#hasBody = true;
    this.#said.add(kind);
  }

  #endMessage(): void {
    if (this.#kind === "call") {
      // Models omit the arguments of functions without parameters.
      if (!this.#hasBody) this.#say("{}");
      this.#numFinishedCalls++;
    }
    this.#kind = undefined;
  }
}

const isHeader = (text: string): boolean => HEADER_STARTS.some((start) => text.trimStart().startsWith(start));

function mayBeHeader(text: string): boolean {
  const begun = text.trimStart();
  return HEADER_STARTS.some((start) => start.startsWith(begun) || begun.startsWith(start));
}

/** The number of characters at the end of the text that may be the beginning of a marker. */
function partialEnd(text: string): number {
  const at = text.lastIndexOf("<");
  if (at === -1) return 0;
  const tail = text.slice(at);
  return ENDS.some((end) => end.startsWith(tail)) ? tail.length : 0;
}
