/** What a format of tool calls tells the parser that reads it. */

/** Where calls go as they are read. */
export interface CallSink {
  /** Names a call may have; anything else is no call. */
  readonly toolNames: ReadonlySet<string>;
  begin(name: string): void;
  arguments(text: string): void;
  end(): void;
}

/**
 * What one more character means. held: it fits so far. taken: it and all that was held belong to a call and will not be text again. ended: taken, and
 * the calls are over. rejected: it does not fit, so whatever is held was text.
 */
export type CallStep = "held" | "taken" | "ended" | "rejected";

/** Reads the calls behind one opener, character by character. */
export interface CallRegion {
  push(char: string): CallStep;
}

export interface ToolCallFormat {
  readonly name: string;
  /** Texts that calls begin with, wherever they stand. */
  readonly openers: readonly string[];
  /** Texts that calls begin with only where nothing but white space came before. */
  readonly startOpeners: readonly string[];
  /** Texts of the format that may be special tokens, which a decoder would leave out. */
  readonly markers: readonly string[];
  /** How a turn begins that calls this function, or any where no name is given. */
  opening(functionName: string | undefined): string;
  startRegion(opener: string, sink: CallSink): CallRegion;
  /** What templates of this format take as a call's id, where they do not take any. */
  templateCallId?(id: string): string;
}
