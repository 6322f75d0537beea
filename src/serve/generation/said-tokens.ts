/** Finds the scored tokens whose texts form an answer's content: clients join these texts and expect the content. */
import type { TokenLogprob } from "../../engine/api/output.js";
import type { AnswerPart } from "../../text/answer/answer-part.js";

/** One output token with its log-probability. */
export interface ScoredToken {
  readonly logprob: TokenLogprob;
  /** Start of the token's text in the output, in code points. */
  readonly textOffset: number;
}

/** A range, counted from the beginning of the output. */
interface Place {
  readonly start: number;
  readonly end: number;
}

export class SaidTokens {
  /** Text that may still become a stop string, a marker, or white space around one. */
  #text = "";
  /** Offset of #text. */
  #start = 0;
  /** End of the text that is known to have no stop string. */
  #freeEnd = 0;
  readonly #waiting: (Place & { readonly scored: ScoredToken })[] = [];
  #said: ScoredToken[] = [];
  #lastKind: AnswerPart["kind"] = "content";

  /** @param text the characters that the token completes; an unfinished one comes with a later token */
  push(scored: ScoredToken, text: string): void {
    const start = this.#start + this.#text.length;
    this.pushText(text);
    this.#waiting.push({ scored, start, end: start + Math.max(text.length, 1) });
  }

  /** Adds text without a token, such as an unfinished character's end. */
  pushText(text: string): void {
    this.#text += text;
  }

  /**
   * @param text the next text of the answer
   * @param parts parts that the answer's reader has split off so far; undefined: all text is content
   */
  free(text: string, parts: readonly AnswerPart[] | undefined): void {
    const start = this.#freeEnd;
    this.#freeEnd += text.length;
    if (parts === undefined) this.#settle({ start, end: this.#freeEnd }, true);
    else this.#settleParts(parts);
  }

  /** The tokens that became certain since the last call. */
  take(): readonly ScoredToken[] {
    const said = this.#said;
    this.#said = [];
    return said;
  }

  /**
   * Parts follow each other in the text. Continued content is at the text's beginning, even if the text that the reader
   * holds back after it is equal; other parts follow a marker, so their search starts at the end.
   */
  #settleParts(parts: readonly AnswerPart[]): void {
    const start = this.#start;
    let text = this.#text.slice(0, this.#freeEnd - start);
    const places: [Place, boolean][] = [];
    for (const part of [...parts].reverse()) {
      if (part.kind === "call" || part.text === "") continue;
      // A reader may put white space between paragraphs.
      const found = text.includes(part.text) ? part.text : part.text.trimStart();
      const goesOn = part === parts[0] && part.kind === this.#lastKind && text.startsWith(found);
      const at = goesOn ? 0 : text.lastIndexOf(found);
      if (at === -1) continue;
      places.unshift([{ start: start + at, end: start + at + found.length }, part.kind === "content"]);
      text = text.slice(0, at);
    }
    for (const [place, isContent] of places) this.#settle(place, isContent);
    this.#lastKind = parts.at(-1)?.kind ?? this.#lastKind;
  }

  /** Drops the tokens before the place: no shown part contains their text. */
  #settle({ start, end }: Place, isContent: boolean): void {
    while (this.#waiting[0] !== undefined && this.#waiting[0].start < end) {
      const token = this.#waiting.shift()!;
      if (isContent && token.end > start) this.#said.push(token.scored);
    }
    this.#text = this.#text.slice(end - this.#start);
    this.#start = end;
  }
}
