/**
 * Grammars of answers that call functions: turns that must contain a call, and answers whose optional calls must be
 * valid.
 */
import { MillraceError } from "../../core/errors.js";
import { formExpression, type PartForm } from "../grammar/answer-form.js";
import { bytesOfSet, characterSet, complement } from "../grammar/character-set.js";
import { EMPTY, GrammarWriter, literal, oneOf, repeat, sequence } from "../grammar/ebnf.js";
import { schemaExpression } from "../grammar/json-schema.js";
import { jsonSpace } from "../grammar/json-space.js";
import { Markers, ORDINARY_TEXT } from "../grammar/markers.js";
import { heldToObjects } from "../grammar/object-schema.js";
import type { CallSyntax, ToolCallFormat } from "./call-format.js";
import { HARMONY } from "./harmony.js";
import { parametersExpression } from "./parameter-grammar.js";
import type { ReasoningMarkers } from "./reasoning.js";

export interface GrammarFunction {
  readonly name: string;
  /** A JSON schema; undefined: the function takes no parameters. */
  readonly parameters: unknown;
  /**
   * Strict: the request is refused if the grammar cannot enforce the schema. Otherwise such arguments may be any
   * object.
   */
  readonly isStrict: boolean;
  /** The request's field that holds the schema. */
  readonly param: string;
}

export interface CallGrammarOptions {
  readonly format: Pick<CallSyntax, "spelling">;
  /** The callable functions, at least one. */
  readonly functions: readonly GrammarFunction[];
  /** The answer ends after its first call. */
  readonly isSingle: boolean;
  /** Markers of the format, or of reasoning, that are special tokens of the model. */
  readonly specialTexts: readonly string[];
}

/** For grammars of answers that may contain calls in their text. */
export interface TextGrammarOptions extends CallGrammarOptions {
  readonly format: TextFormat;
  readonly reasoning: ReasoningForm;
}

type TextFormat = Pick<ToolCallFormat, "openers" | "startOpeners" | "startsWithName" | "spelling">;

/** The reasoning's markers, and whether an answer begins inside it or may open one; undefined: it has none. */
type ReasoningForm = (ReasoningMarkers & { readonly start: "inside" | "possible" }) | undefined;

const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };
const ANY_OBJECT = { type: "object" };
const BLANKS = "[ \\t\\r\\n]*";
/**
 * White space between reasoning and content; bounded, because a model could otherwise repeat it until its token limit.
 */
const FEW_BLANKS = "[ \\r\\n]{0,4}";

/**
 * The grammar of a forced call's text after the format's opening.
 * @param isNamed whether the opening already contains the name of the only function
 */
export function forcedCallGrammar(options: CallGrammarOptions, isNamed: boolean): string {
  const grammar = new CallGrammar(options, "whereverPossible");
  return grammar.writer.text(isNamed ? grammar.arguments() : grammar.calls());
}

/**
 * Answers of free text, with or without reasoning, followed by optional calls; a non-strict function accepts any
 * object.
 */
export function freeCallGrammar(options: TextGrammarOptions): string {
  const grammar = new CallGrammar(options, "whereStrict");
  return grammar.writer.text(grammar.answer(options));
}

/** Answers that are either calls or text of the given form, with or without reasoning before them. */
export function callOrFormGrammar(options: TextGrammarOptions, form: PartForm): string {
  const grammar = new CallGrammar(options, "whereverPossible");
  return grammar.writer.text(grammar.callsOr(form, options));
}

/**
 * Harmony's answers: messages of reasoning and preambles, then a call or a final message, in the given form if there is
 * one.
 */
export function channelGrammar(options: CallGrammarOptions, form: PartForm | undefined): string {
  const grammar = new CallGrammar(options, form === undefined ? "whereStrict" : "whereverPossible");
  return grammar.writer.text(grammar.channels(form));
}

class CallGrammar {
  readonly writer = new GrammarWriter();
  readonly #markers: Markers;
  readonly #options: CallGrammarOptions;
  /** A call from its name to the end of its arguments. */
  readonly #call: string;
  /** Expressions for the arguments of each function. */
  readonly #argumentsOf: readonly string[];

  constructor(options: CallGrammarOptions, keepsSchemas: "whereverPossible" | "whereStrict") {
    const { format, functions, specialTexts } = options;
    this.#options = options;
    this.#markers = new Markers(new Set(specialTexts));
    const space = format.spelling.parameters === undefined ? jsonSpace(this.writer) : EMPTY;
    const argumentsOf = functions.map((each) => sequence(space, this.#arguments(each, keepsSchemas)));
    this.#argumentsOf = argumentsOf;
    const { beforeNumber, beforeArguments } = format.spelling;
    const head = (name: string): string =>
      beforeNumber === undefined
        ? this.#spell(name + beforeArguments)
        : sequence(this.#spell(name + beforeNumber), repeat("[0-9]", 1, 4), this.#spell(beforeArguments));
    const calls = functions.map(({ name }, i) => sequence(head(name), argumentsOf[i]!));
    this.#call = this.writer.rule(oneOf(calls));
  }

  /** The only function's arguments and the end of the call. */
  arguments(): string {
    const { afterArguments, end } = this.#options.format.spelling;
    return sequence(this.#argumentsOf[0]!, this.#spell(afterArguments + end));
  }

  /** Calls from the first one's name to the end of the answer. */
  calls(): string {
    const { beforeName, afterArguments, between, end } = this.#options.format.spelling;
    const close = this.#spell(afterArguments);
    const more = sequence(this.#spell(between + beforeName), this.#call, close);
    const others = this.#options.isSingle ? EMPTY : repeat(more, 0, undefined);
    return sequence(this.#call, close, others, this.#spell(end));
  }

  /** Harmony's messages, from the first one's header on. */
  channels(form: PartForm | undefined): string {
    const { thought, preamble, final, end, next, calls, types, message } = HARMONY;
    const messages = this.writer.reserve();
    const others = sequence(this.#spell(next), messages);
    const withOthers = (header: string) =>
      sequence(this.#spell(header), this.#markers.through(this.writer, end, others));
    const type = this.writer.rule(oneOf(types.map((each) => this.#spell(each))));
    const called = calls.flatMap(({ before, after }) =>
      this.#options.functions.map(({ name }, i) =>
        sequence(this.#spell(`${before}${name}${after}`), type, this.#spell(message), this.#argumentsOf[i]!),
      ),
    );
    const said = form === undefined ? ORDINARY_TEXT : formExpression(this.writer, form);
    const last = sequence(this.#spell(final), said);
    this.writer.define(messages, oneOf([withOthers(thought), withOthers(preamble), ...called, last]));
    return messages;
  }

  answer({ format, reasoning }: TextGrammarOptions): string {
    const said = this.writer.rule(this.#textThenCalls(format));
    if (reasoning === undefined) return said;
    return this.#afterThought(reasoning, said, this.#markers.upTo(this.writer, reasoning.close, said));
  }

  #afterThought({ start, open }: NonNullable<ReasoningForm>, said: string, thought: string): string {
    return start === "inside" ? thought : oneOf([said, sequence(BLANKS, this.#spell(open), thought)]);
  }

  callsOr(form: PartForm, { format: { openers, spelling }, reasoning }: TextGrammarOptions): string {
    const { start, beforeName } = spelling;
    // An opener that the format leaves optional is accepted, too.
    const starts = start.startsWith(openers[0]!) ? [start] : [start, openers[0]! + start];
    const calls = this.writer.rule(this.calls());
    const said = this.writer.rule(
      oneOf([
        ...starts.map((each) => sequence(this.#spell(each + beforeName), calls)),
        formExpression(this.writer, form),
      ]),
    );
    if (reasoning === undefined) return said;
    const thought = this.#markers.through(this.writer, reasoning.close, sequence(FEW_BLANKS, said));
    return this.#afterThought(reasoning, said, thought);
  }

  #textThenCalls({ openers, startOpeners, startsWithName, spelling }: TextFormat): string {
    const opener = openers[0]!;
    const { start, beforeName } = spelling;
    const behindOpener = start.startsWith(opener) ? start.slice(opener.length) : start;
    const calls = this.writer.rule(sequence(this.#spell(behindOpener + beforeName), this.calls()));
    const text = this.#markers.upTo(this.writer, opener, calls);
    // After a line break, a name is text.
    if (startsWithName === true) return oneOf([calls, EMPTY, sequence(literal("\n"), text)]);
    if (startOpeners.length === 0) return text;
    // If an answer may be a call without an opener, text that begins like a call must be one.
    const others = this.#otherBeginnings(startOpeners.join(""), opener, text);
    return sequence(BLANKS, oneOf([calls, EMPTY, ...others, sequence(this.#spell(opener), calls)]));
  }

  /** Text that begins with neither blanks nor the excluded characters nor the opener. */
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

  #byItsSchema({ parameters, param, isStrict }: GrammarFunction): string {
    const schema = heldToObjects(parameters ?? NO_PARAMETERS);
    const { parameters: spelling } = this.#options.format.spelling;
    if (schema !== undefined && spelling !== undefined) {
      return parametersExpression({ writer: this.writer, markers: this.#markers, spelling, param, isStrict }, schema);
    }
    if (schema !== undefined) return schemaExpression(this.writer, schema, param);
    throw new MillraceError(
      "invalid_parameter",
      `${param}: expected a schema of objects only, got one that other values fit or that lists its values`,
      { param, hint: 'give it "type": "object"' },
    );
  }

  #anyObject(): string {
    const { parameters: spelling } = this.#options.format.spelling;
    if (spelling !== undefined) {
      const context = { writer: this.writer, markers: this.#markers, spelling, param: "tools", isStrict: false };
      return parametersExpression(context, ANY_OBJECT);
    }
    return schemaExpression(this.writer, ANY_OBJECT, "tools");
  }

  #spell(text: string): string {
    return this.#markers.spell(text);
  }
}

const setOf = (characters: string) => characterSet([...characters].map((c) => [c.codePointAt(0)!, c.codePointAt(0)!]));
