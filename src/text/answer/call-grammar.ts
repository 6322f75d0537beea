/** Grammars of answers that call functions: turns that must call, and answers that may call but only validly. */
import { MillraceError } from "../../core/errors.js";
import { formExpression, type PartForm } from "../grammar/answer-form.js";
import { bytesOfSet, characterSet, complement } from "../grammar/character-set.js";
import { EMPTY, GrammarWriter, literal, oneOf, repeat, sequence } from "../grammar/ebnf.js";
import { schemaExpression } from "../grammar/json-schema.js";
import { jsonSpace } from "../grammar/json-space.js";
import { Markers } from "../grammar/markers.js";
import { heldToObjects } from "../grammar/object-schema.js";
import type { ToolCallFormat } from "./call-format.js";
import { REASONING_CLOSE, REASONING_OPEN } from "./reasoning.js";

export interface GrammarFunction {
  readonly name: string;
  /** A JSON schema; undefined: there are none. */
  readonly parameters: unknown;
  /** Strict arguments keep to their schema or the request is refused; others may be any object where their schema cannot be kept. */
  readonly isStrict: boolean;
  /** The request's field that holds the schema. */
  readonly param: string;
}

/** What grammars need to know of a format. */
type CallSyntax = Pick<ToolCallFormat, "openers" | "startOpeners" | "spelling">;

export interface CallGrammarOptions {
  readonly format: CallSyntax;
  /** The callable functions, at least one. */
  readonly functions: readonly GrammarFunction[];
  /** The answer is over with its first call. */
  readonly isSingle: boolean;
  /** Markers of the format, or of reasoning, that are special tokens of the model. */
  readonly specialTexts: readonly string[];
}

/** Whether an answer begins inside its reasoning, may open it, or is read without any. */
export type ReasoningStart = "inside" | "possible" | "none";

const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };
const ANY_OBJECT = { type: "object" };
const BLANKS = "[ \\t\\r\\n]*";
/** White space between reasoning and content, bounded: a model could write it until its tokens run out. */
const FEW_BLANKS = "[ \\r\\n]{0,4}";

/**
 * What follows the format's opening of a turn that calls.
 * @param isNamed whether the opening has the name of the one function in it
 */
export function forcedCallGrammar(options: CallGrammarOptions, isNamed: boolean): string {
  const grammar = new CallGrammar(options, "whereverPossible");
  return grammar.writer.text(isNamed ? grammar.arguments() : grammar.calls());
}

/** Answers of any text, with or without reasoning, that ends where calls begin; non-strict functions get any object. */
export function freeCallGrammar(options: CallGrammarOptions, reasoning: ReasoningStart): string {
  const grammar = new CallGrammar(options, "whereStrict");
  return grammar.writer.text(grammar.answer(reasoning));
}

/** Answers that are calls or of the form, with or without reasoning before them. */
export function callOrFormGrammar(options: CallGrammarOptions, reasoning: ReasoningStart, form: PartForm): string {
  const grammar = new CallGrammar(options, "whereverPossible");
  return grammar.writer.text(grammar.callsOr(form, reasoning));
}

class CallGrammar {
  readonly writer = new GrammarWriter();
  readonly #markers: Markers;
  readonly #options: CallGrammarOptions;
  /** A call from its name to the end of its arguments. */
  readonly #call: string;
  readonly #argumentsOfFirst: string;

  constructor(options: CallGrammarOptions, keepsSchemas: "whereverPossible" | "whereStrict") {
    const { format, functions, specialTexts } = options;
    this.#options = options;
    this.#markers = new Markers(new Set(specialTexts));
    const space = jsonSpace(this.writer);
    const argumentsOf = functions.map((each) => sequence(space, this.#arguments(each, keepsSchemas)));
    this.#argumentsOfFirst = argumentsOf[0]!;
    const { beforeArguments } = format.spelling;
    const calls = functions.map(({ name }, i) => sequence(this.#spell(name + beforeArguments), argumentsOf[i]!));
    this.#call = this.writer.rule(oneOf(calls));
  }

  /** The only function's arguments, and what ends the call. */
  arguments(): string {
    const { afterArguments, end } = this.#options.format.spelling;
    return sequence(this.#argumentsOfFirst, this.#spell(afterArguments + end));
  }

  /** Calls from the first one's name to the end of the answer. */
  calls(): string {
    const { beforeName, afterArguments, between, end } = this.#options.format.spelling;
    const close = this.#spell(afterArguments);
    const more = sequence(this.#spell(between + beforeName), this.#call, close);
    const others = this.#options.isSingle ? EMPTY : repeat(more, 0, undefined);
    return sequence(this.#call, close, others, this.#spell(end));
  }

  answer(reasoning: ReasoningStart): string {
    const said = this.writer.rule(this.#textThenCalls());
    if (reasoning === "none") return said;
    const thought = this.#markers.upTo(this.writer, REASONING_CLOSE, said);
    return reasoning === "inside" ? thought : oneOf([said, sequence(BLANKS, this.#spell(REASONING_OPEN), thought)]);
  }

  callsOr(form: PartForm, reasoning: ReasoningStart): string {
    const { openers, spelling } = this.#options.format;
    const { start, beforeName } = spelling;
    // A format that needs no opener may have it.
    const starts = start.startsWith(openers[0]!) ? [start] : [start, openers[0]! + start];
    const calls = this.writer.rule(this.calls());
    const said = this.writer.rule(
      oneOf([
        ...starts.map((each) => sequence(this.#spell(each + beforeName), calls)),
        formExpression(this.writer, form),
      ]),
    );
    if (reasoning === "none") return said;
    const thought = this.#markers.through(this.writer, REASONING_CLOSE, sequence(FEW_BLANKS, said));
    return reasoning === "inside" ? thought : oneOf([said, sequence(BLANKS, this.#spell(REASONING_OPEN), thought)]);
  }

  #textThenCalls(): string {
    const { openers, startOpeners, spelling } = this.#options.format;
    const opener = openers[0]!;
    const { start, beforeName } = spelling;
    const behindOpener = start.startsWith(opener) ? start.slice(opener.length) : start;
    const calls = this.writer.rule(sequence(this.#spell(behindOpener + beforeName), this.calls()));
    const text = this.#markers.upTo(this.writer, opener, calls);
    if (startOpeners.length === 0) return text;
    // Where an answer may be a call by itself, whatever begins like one is one.
    const others = this.#otherBeginnings(startOpeners.join(""), opener, text);
    return sequence(BLANKS, oneOf([calls, EMPTY, ...others, sequence(this.#spell(opener), calls)]));
  }

  /** Text that begins with neither blanks nor these characters, and is no opener. */
  #otherBeginnings(excluded: string, opener: string, text: string): string[] {
    const unlike = (characters: string): string => `(${bytesOfSet(complement(setOf(characters)))})`;
    const [first = "", second = ""] = opener;
    return [
      sequence(unlike(` \t\r\n${excluded}${first}`), text),
      sequence(literal(first), repeat(sequence(unlike(first + second), text), 0, 1)),
    ];
  }

  #arguments(each: GrammarFunction, keepsSchemas: "whereverPossible" | "whereStrict"): string {
    if (each.isStrict) return this.#byItsSchema(each);
    if (keepsSchemas === "whereStrict") return this.#anyObject();
    try {
      return this.writer.attempt(() => this.#byItsSchema(each));
    } catch (thrown) {
      if (!(thrown instanceof MillraceError)) throw thrown;
      return this.#anyObject();
    }
  }

  #byItsSchema({ parameters, param }: GrammarFunction): string {
    const schema = heldToObjects(parameters ?? NO_PARAMETERS);
    if (schema !== undefined) return schemaExpression(this.writer, schema, param);
    throw new MillraceError(
      "invalid_parameter",
      `${param}: expected a schema of objects only, got one that other values fit or that lists its values`,
      { param, hint: 'give it "type": "object"' },
    );
  }

  #anyObject(): string {
    return schemaExpression(this.writer, ANY_OBJECT, "tools");
  }

  #spell(text: string): string {
    return this.#markers.spell(text);
  }
}

const setOf = (characters: string) => characterSet([...characters].map((c) => [c.codePointAt(0)!, c.codePointAt(0)!]));
