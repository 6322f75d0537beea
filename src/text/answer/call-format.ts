/** A format of tool calls, as the parser needs it. */

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

/** Reads the calls after one opener, character by character. */
export interface CallRegion {
  push(char: string): CallStep;
}

/**
 * How calls are written, text by text: `start`, then for each call `beforeName`, its name, `beforeArguments`, its arguments, `afterArguments`, with
 * `between` before each call but the first, then `end`.
 */
interface CallSpelling {
  readonly start: string;
  readonly beforeName: string;
  readonly beforeArguments: string;
  readonly afterArguments: string;
  readonly between: string;
  readonly end: string;
}

export interface ToolCallFormat {
  readonly name: string;
  /** Texts that calls begin with, wherever they stand. */
  readonly openers: readonly string[];
  /** Texts that calls begin with only where nothing but white space came before. */
  readonly startOpeners: readonly string[];
  /** Texts of the format that may be special tokens, which a decoder would leave out. */
  readonly markers: readonly string[];
  /** As models are taught to write; the parser reads more than that. */
  readonly spelling: CallSpelling;
  startRegion(opener: string, sink: CallSink): CallRegion;
  /** What templates of this format take as a call's id, where they do not take any. */
  templateCallId?(id: string): string;
}

/** How a turn begins that calls this function, or any where no name is given. */
export function callOpening({ spelling }: ToolCallFormat, functionName: string | undefined): string {
  const { start, beforeName, beforeArguments } = spelling;
  return `${start}${beforeName}${functionName === undefined ? "" : `${functionName}${beforeArguments}`}`;
}
