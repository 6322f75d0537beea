/** A format of tool calls, as the parser needs it. */

/** Receives calls while they are read. */
export interface CallSink {
  /** The functions that may be called; text with another name is not a call. */
  readonly toolNames: ReadonlySet<string>;
  begin(name: string): void;
  arguments(text: string): void;
  end(): void;
}

/**
 * The result of one more character. held: the text still fits. taken: the character and all held text belong to a call
 * for good. ended: taken, and the calls are complete. rejected: the character does not fit, so the held text is plain
 * text.
 */
export type CallStep = "held" | "taken" | "ended" | "rejected";

/** Reads the calls after one opener, character by character. */
export interface CallRegion {
  push(char: string): CallStep;
}

/**
 * The spelling of calls: `start`, then for each call `beforeName`, its name, `beforeArguments`, its arguments,
 * `afterArguments`, with `between` before each call but the first, then `end`.
 */
interface CallSpelling {
  readonly start: string;
  readonly beforeName: string;
  readonly beforeArguments: string;
  readonly afterArguments: string;
  readonly between: string;
  readonly end: string;
}

/** How a format writes calls, for forced calls and grammars. */
export interface CallSyntax {
  readonly name: string;
  /** Texts of the format that may be special tokens; the decoder must keep them. */
  readonly markers: readonly string[];
  /** The spelling that models are trained on; readers also accept others. */
  readonly spelling: CallSpelling;
  /** Converts a call's id to the form that this format's templates require. Absent: they accept any id. */
  templateCallId?(id: string): string;
}

/** A format of calls that stand in an answer's text. */
export interface ToolCallFormat extends CallSyntax {
  /** Texts that begin calls at any place in the answer. */
  readonly openers: readonly string[];
  /** Texts that begin calls only at the start of the answer, after optional white space. */
  readonly startOpeners: readonly string[];
  startRegion(opener: string, sink: CallSink): CallRegion;
}

/** Whether calls stand in the text; otherwise the whole answer has the format's form, reasoning and content too. */
export const isWithinText = (format: CallSyntax): format is ToolCallFormat => "startRegion" in format;

/** The beginning of a turn that calls this function, or any function if no name is given. */
export function callOpening({ spelling }: CallSyntax, functionName: string | undefined): string {
  const { start, beforeName, beforeArguments } = spelling;
  return `${start}${beforeName}${functionName === undefined ? "" : `${functionName}${beforeArguments}`}`;
}
