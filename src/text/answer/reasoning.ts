/**
 * Splits a model's reasoning (`<think>…</think>` at the start of its turn) from its answer while the text arrives. The
 * result does not depend on how the text is cut into pieces. White space around the markers belongs to neither part.
 */

export interface ReasoningMarkers {
  readonly open: string;
  readonly close: string;
  /** Text that a template may add after the opening marker, in the prompt. */
  readonly begun?: string;
  /** The token at the start of the opening marker, if the marker continues with text. */
  readonly openToken?: string;
}

/** The models' markers, by the names of vLLM's parsers where they differ from `think`. */
const MARKERS = {
  think: { open: "<think>", close: "</think>" },
  // Without a budget for thoughts, the template opens the model's note about the budget.
  seed_oss: { open: "<seed:think>", close: "</seed:think>", begun: "<seed:cot_budget_reflect>" },
  mistral: { open: "[THINK]", close: "[/THINK]" },
  gemma4: { open: "<|channel>thought", close: "<channel|>", openToken: "<|channel>" },
} as const satisfies Readonly<Record<string, ReasoningMarkers>>;

type MarkersName = keyof typeof MARKERS;
const NAMES = Object.keys(MARKERS) as MarkersName[];

export const REASONING_PARSERS = ["auto", "none", ...NAMES] as const;
export type ReasoningParserName = (typeof REASONING_PARSERS)[number];

export const THINK: ReasoningMarkers = MARKERS.think;

/** Texts that may be special tokens; the decoder must keep them. */
export const markerTexts = ({ open, openToken = open, close }: ReasoningMarkers): readonly string[] => [
  openToken,
  close,
];
export const REASONING_MARKERS: readonly string[] = NAMES.flatMap((name) => markerTexts(MARKERS[name]));

interface ReasoningSplit {
  readonly reasoning: string;
  readonly content: string;
}

/**
 * The markers of the model's reasoning; undefined: the model has none.
 * @param isInVocabulary whether each text is a single token; that identifies the markers where the template shows none
 */
export function reasoningMarkers(
  parser: ReasoningParserName,
  templateSource: string,
  isInVocabulary: (texts: readonly string[]) => boolean,
): ReasoningMarkers | undefined {
  if (parser === "none") return undefined;
  if (parser !== "auto") return MARKERS[parser];
  const name =
    NAMES.find((each) => templateSource.includes(MARKERS[each].open)) ??
    NAMES.find((each) => isInVocabulary(markerTexts(MARKERS[each])));
  return name === undefined ? undefined : MARKERS[name];
}

/** Whether an answer to this prompt begins inside the reasoning. */
export function endsInsideReasoning(prompt: string, { open, begun = "" }: ReasoningMarkers): boolean {
  const end = prompt.trimEnd();
  return end.endsWith(open) || (begun !== "" && end.endsWith(open + begun));
}

/** The text that ends the reasoning when a prompt ends inside it. */
export const reasoningEnd = ({ close }: ReasoningMarkers): string => `\n${close}\n\n`;

/** The number of characters at the end of the text that may be the beginning of the marker. */
function partialLength(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length;
  }
  return 0;
}

/** @example new ReasoningSplitter(THINK, false).push("<think>hm</think>yes") // { reasoning: "hm", content: "yes" } */
export class ReasoningSplitter {
  readonly #open: string;
  readonly #close: string;
  readonly #opener: string;
  #state: "start" | "reasoning" | "content";
  /** Text that may be the beginning of a marker. */
  #held = "";
  /** White space before the held text, kept apart because searching both at each piece would take quadratic time. */
  #space = "";
  /** White space at the start of a part is dropped. */
  #isAtPartStart = true;

  /** @param opener of calls, which also ends the reasoning and belongs to the content; "": calls do not end it */
  constructor({ open, close }: ReasoningMarkers, startsInside: boolean, opener = "") {
    this.#open = open;
    this.#close = close;
    this.#opener = opener;
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
    const text = this.#takeSpace() + this.#held;
    this.#held = "";
    if (this.#state === "reasoning")
      return { reasoning: this.#isAtPartStart ? text.trim() : text.trimEnd(), content: "" };
    return { reasoning: "", content: this.#state === "start" ? text : "" };
  }

  #readStart(): void {
    const text = this.#held.trimStart();
    this.#space += this.#held.slice(0, this.#held.length - text.length);
    this.#held = text;
    if (text.startsWith(this.#open)) {
      this.#state = "reasoning";
      this.#space = "";
      this.#held = text.slice(this.#open.length);
    } else if (!this.#open.startsWith(text)) {
      this.#state = "content";
      this.#isAtPartStart = false;
      this.#held = this.#takeSpace() + text;
    }
  }

  /** Holds back text that may be the closing marker, and the white space before it. */
  #readReasoning(): string {
    const markers = [this.#close, this.#opener].filter((marker) => marker !== "");
    const ends = markers.map((marker) => this.#held.indexOf(marker)).filter((end) => end !== -1);
    const isOver = ends.length > 0;
    const end = isOver
      ? Math.min(...ends)
      : this.#held.length - Math.max(...markers.map((marker) => partialLength(this.#held, marker)));
    const before = this.#held.slice(0, end);
    const text = before.trimEnd();
    const all = text === "" ? "" : this.#takeSpace() + text;
    const reasoning = this.#isAtPartStart ? all.trimStart() : all;
    const isClosed = isOver && this.#held.startsWith(this.#close, end);
    this.#space += before.slice(text.length);
    this.#held = this.#held.slice(isClosed ? end + this.#close.length : end);
    if (reasoning !== "") this.#isAtPartStart = false;
    if (isOver) {
      this.#state = "content";
      this.#space = "";
      this.#isAtPartStart = true;
    }
    return reasoning;
  }

  #takeSpace(): string {
    const space = this.#space;
    this.#space = "";
    return space;
  }

  #takeHeld(): string {
    const text = this.#isAtPartStart ? this.#held.trimStart() : this.#held;
    this.#held = "";
    if (text !== "") this.#isAtPartStart = false;
    return text;
  }
}
