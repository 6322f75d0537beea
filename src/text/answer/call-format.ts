/** The interface of a tool-call format to the parser. */

/**
 * The functions that may be called, by name, with the JSON schemas of their parameters (undefined: none); text with
 * another name is not a call.
 */
export type CallableTools = ReadonlyMap<string, unknown>;

/** Receives calls while they are read. */
export interface CallSink {
  readonly tools: CallableTools;
  /** Whether a grammar enforces the format's own form of calls. */
  readonly isHeld: boolean;
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
  /**
   * Ends the answer inside a call: reports the held call as far as it goes. Returns true also where the held text is
   * only the format's text after a call. False, and absent: the held text is content.
   */
  cutOff?(): boolean;
}

/**
 * The spelling of calls: `start`, then for each call `beforeName`, its name, `beforeArguments`, its arguments,
 * `afterArguments`, with `between` before each call but the first, then `end`.
 */
export interface CallSpelling {
  readonly start: string;
  readonly beforeName: string;
  /** Text after the name, followed by the call's number; absent: calls have no numbers. */
  readonly beforeNumber?: string;
  readonly beforeArguments: string;
  /** Absent: the arguments are one JSON object. */
  readonly parameters?: ParameterSpelling;
  readonly afterArguments: string;
  readonly between: string;
  readonly end: string;
}

/** The spelling of arguments that are written one by one, each with its key and value between these texts. */
export interface ParameterSpelling {
  readonly beforeKey: string;
  readonly beforeValue: string;
  readonly afterValue: string;
  /** The tag within `afterValue` that ends a text value; "": values are JSON. */
  readonly valueEnd: string;
  /** The quote on both sides of a text, where other values are JSON; absent: texts are JSON strings. */
  readonly quote?: string;
  readonly between: string;
}

/** How a format writes calls, for forced calls and grammars. */
export interface CallSyntax {
  readonly name: string;
  /** Texts of the format that may be special tokens; the decoder must keep them. */
  readonly markers: readonly string[];
  /** The spelling that models are trained on; readers also accept others. */
  readonly spelling: CallSpelling;
  /**
   * Converts a call's id to the form that this format's templates require. Absent: they accept any id.
   * @param name of the function; undefined: the conversation has no such call
   * @param number of the call in the conversation
   */
  templateCallId?(id: string, name?: string, number?: number): string;
  /** A template of the request's tools for the system message, where the chat template prints none. */
  readonly toolsTemplate?: string;
}

/** A format whose calls appear within an answer's text. */
export interface ToolCallFormat extends CallSyntax {
  /** Texts that begin calls at any place in the answer. */
  readonly openers: readonly string[];
  /** Texts that begin calls only at the start of the answer, after optional white space. */
  readonly startOpeners: readonly string[];
  /** Whether a function's name with the text after it also begins calls, at the start of the answer. */
  readonly startsWithName?: boolean;
  /** Openers of calls for models that omit the format's own; grammars exclude them. */
  readonly looseOpeners?: readonly string[];
  /** Whether the first opener also ends a thought, because models omit its end. */
  readonly endsThought?: boolean;
  startRegion(opener: string, sink: CallSink): CallRegion;
}

/**
 * Whether calls appear within the text; otherwise the whole answer has the format's form, including reasoning and
 * content.
 */
export const isWithinText = (format: CallSyntax): format is ToolCallFormat => "startRegion" in format;

/** The text between a call's name and its arguments. */
const behindName = ({ beforeNumber, beforeArguments }: CallSpelling, number: number): string =>
  beforeNumber === undefined ? beforeArguments : `${beforeNumber}${number}${beforeArguments}`;

/**
 * Calls as a model writes them, with their arguments as JSON; undefined: the format writes no JSON.
 * @param number of the first call in the conversation
 */
export function spellCalls(
  { spelling }: CallSyntax,
  calls: readonly { readonly name: string; readonly arguments: string }[],
  number: number,
): string | undefined {
  const { start, beforeName, parameters, afterArguments, between, end } = spelling;
  if (parameters !== undefined) return undefined;
  const spelled = calls.map((call, index) => {
    const before = behindName(spelling, number + index);
    return `${beforeName}${call.name}${before}${before.endsWith(":") ? " " : ""}${call.arguments || "{}"}${afterArguments}`;
  });
  return `${start}${spelled.join(between)}${end}`;
}

/**
 * The beginning of a turn that calls this function, or any function if no name is given.
 * @param number of the call in the conversation
 */
export function callOpening({ spelling }: CallSyntax, functionName: string | undefined, number = 0): string {
  const { start, beforeName } = spelling;
  return `${start}${beforeName}${functionName === undefined ? "" : `${functionName}${behindName(spelling, number)}`}`;
}
