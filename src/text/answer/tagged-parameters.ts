/**
 * Calls with a name and parameters in tags. Parameter values are text; the reader converts them to JSON by the
 * function's schema.
 *
 *   GLM 4.5 to 4.7: <tool_call>NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> … </tool_call>
 *   Qwen 3 Coder:   <tool_call> <function=NAME> <parameter=KEY> VALUE </parameter> … </function> </tool_call>
 *   Seed-OSS:       the same in <seed:tool_call>, with values that share lines with their tags
 *   MiniMax M2:     <minimax:tool_call> <invoke name="NAME"> <parameter name="KEY">VALUE</parameter> … </invoke>
 *                   </minimax:tool_call>
 */
import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { isJsonSpace, JsonScanner } from "./json-scanner.js";
import {
  isText,
  jsonOfText,
  namedParameters,
  schemaOfParameter,
  typesOfSchema,
  type ValueType,
} from "./parameter-value.js";
import { jsonUnit } from "./python-literal.js";

interface Tags {
  readonly open: string;
  /** Enclose the name; an empty end means white space or the next tag. */
  readonly name: readonly [start: string, end: string];
  readonly key: readonly [start: string, end: string];
  /** Text between key and value; "" if the key's end begins the value. */
  readonly value: string;
  readonly valueEnd: string;
  /** Ends the parameters. */
  readonly end: string;
  /** Ends the call after `end`; "" if no further tag does. */
  readonly close: string;
  /** Whether values stand on their own lines, without the line breaks belonging to them. */
  readonly isOnOwnLine: boolean;
}

/** Exceeds every name with its tag and the white space before it. */
const MAX_HEAD_LENGTH = 200;
const MAX_KEY_LENGTH = 512;
/** Exceeds a value's end with the next tag; the limit keeps white space from accumulating. */
const MAX_END_LENGTH = 128;

type State = "name" | "between" | "key" | "beforeValue" | "value" | "closing";

class TaggedCall implements CallRegion {
  readonly #tags: Tags;
  readonly #sink: CallSink;
  /** Whether end tags may be missing; a grammar requires them. */
  readonly #isLoose: boolean;
  #state: State = "name";
  /** The unread text of the current state. */
  #text = "";
  #name = "";
  #hasBegun = false;
  #key = "";
  /** Keys of the call's parameters so far. */
  #given = new Set<string>();
  #types: ReadonlySet<ValueType> | undefined;
  #isFirstUnit = false;
  /** A value that is not text, up to its end. */
  #value = "";
  /** Follows a value that can only be JSON; undefined: the value may be text, or turned out not to be JSON. */
  #scanner: JsonScanner | undefined;

  /** @param begun the part of the name's tag that has been read */
  constructor(tags: Tags, sink: CallSink, begun: string) {
    this.#tags = tags;
    this.#text = begun;
    this.#sink = sink;
    this.#isLoose = tags.isOnOwnLine && !sink.isHeld;
  }

  push(char: string): CallStep {
    const step = this.#read(char);
    // A parameter that breaks off leaves a call with the parameters before it.
    if (step === "rejected" && this.#hasBegun && this.#state !== "closing") this.#endCall();
    return step;
  }

  /** True if a parameter has begun, or if its value's end tag is missing before the last end tag. */
  cutOff(): boolean {
    if (this.#state === "value" && this.#isEndWithoutTag(this.#text.trimEnd())) {
      this.#endValue();
      this.#endCall();
      return true;
    }
    const isHeld = !this.#hasBegun && (this.#state === "key" || this.#state === "beforeValue");
    if (isHeld) this.#begin();
    return isHeld;
  }

  #read(char: string): CallStep {
    switch (this.#state) {
      case "name":
        return this.#readName(char);
      case "between":
        return this.#readBetween(char);
      case "key":
        return this.#readKey(char);
      case "beforeValue":
        return this.#expect(char, [this.#tags.value], () => this.#startValue());
      case "value":
        return this.#readValue(char);
      case "closing":
        return this.#readClosing(char);
    }
  }

  #readName(char: string): CallStep {
    const [start, end] = this.#tags.name;
    this.#text += char;
    const begun = this.#text.trimStart();
    if (start !== "" && start.startsWith(begun)) return this.#text.length <= MAX_HEAD_LENGTH ? "held" : "rejected";
    if (!begun.startsWith(start)) return "rejected";
    const name = begun.slice(start.length);
    const [word = ""] = /^[\w-]*/.exec(name) ?? [];
    const rest = name.slice(word.length);
    const hasMore = this.#mayHaveAttributes && /^" ([^>]*|[\w-]+=[^>]*>)$/.test(rest);
    const isBegun = rest === "" || (rest !== end && end.startsWith(rest)) || (hasMore && char !== ">");
    if (isBegun) return this.#text.length <= MAX_HEAD_LENGTH ? "held" : "rejected";
    const isEnd = end === "" ? isJsonSpace(char) || char === "<" : rest === end || hasMore;
    this.#name = word;
    if (!isEnd || !this.#sink.tools.has(this.#name)) return "rejected";
    this.#enter("between");
    return char === "<" ? this.#readBetween(char) : "held";
  }

  /** MiniMax repeats words of the tools as attributes after a name; a grammar forbids it. */
  get #mayHaveAttributes(): boolean {
    return this.#tags.name[1] === '">' && !this.#sink.isHeld;
  }

  #readBetween(char: string): CallStep {
    const { key, end } = this.#tags;
    return this.#expect(char, [key[0], end], (tag) => this.#startNext(tag));
  }

  /** Continues after a parameter's first tag, or after the end of all parameters. */
  #startNext(tag: string): CallStep {
    if (tag !== this.#tags.end) {
      this.#enter("key");
      return this.#stepSoFar();
    }
    this.#begin();
    this.#endCall();
    this.#enter("closing");
    return this.#tags.close === "" ? "ended" : "taken";
  }

  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#sink.begin(this.#name);
    this.#sink.arguments("{");
  }

  #endCall(): void {
    this.#sink.arguments("}");
    this.#sink.end();
  }

  /** Some models write several calls inside one pair of outer tags. */
  #readClosing(char: string): CallStep {
    const { name, close } = this.#tags;
    return this.#expect(char, name[0] === "" ? [close] : [close, name[0]], (tag) => {
      if (tag === close) return "ended";
      this.#startCall(tag);
      return "held";
    });
  }

  /** @param tag the part of the name's tag that has been read */
  #startCall(tag: string): void {
    this.#enter("name");
    this.#text = tag;
    this.#hasBegun = false;
    this.#given.clear();
  }

  #readKey(char: string): CallStep {
    const end = this.#tags.key[1];
    this.#text += char;
    if (!this.#text.endsWith(end)) return this.#text.length <= MAX_KEY_LENGTH ? this.#stepSoFar() : "rejected";
    const [key = ""] = this.#mayHaveAttributes ? this.#text.split('"', 1) : [this.#text.slice(0, -end.length)];
    this.#key = key.trim();
    if (this.#tags.value === "") return this.#startValue();
    this.#enter("beforeValue");
    return this.#stepSoFar();
  }

  #startValue(): CallStep {
    this.#begin();
    const parameters = this.#sink.tools.get(this.#name);
    this.#types = typesOfSchema(parameters, schemaOfParameter(parameters, this.#key));
    this.#sink.arguments(`${this.#given.size === 0 ? "" : ", "}${JSON.stringify(this.#key)}: `);
    this.#given.add(this.#key);
    this.#enter("value");
    this.#isFirstUnit = true;
    this.#value = "";
    this.#scanner = this.#types === undefined || this.#types.has("string") ? undefined : new JsonScanner();
    if (isText(this.#types)) this.#sink.arguments('"');
    return "taken";
  }

  /**
   * A value ends where its end tag is followed by a permitted tag; elsewhere, and inside a JSON string, the end tag
   * belongs to the value.
   */
  #readValue(char: string): CallStep {
    this.#text += char;
    while (this.#text !== "") {
      const next = this.#tagBehindValue(this.#text);
      if (next === "unknown") return "taken";
      if (next !== "none" && this.#scanner?.isInString !== true) return this.#endValueBefore(next);
      const step = this.#isLoose ? this.#readEndWithoutTag(this.#text) : undefined;
      if (step !== undefined) return step;
      this.#takeUnit(this.#text[0]!);
      this.#text = this.#text.slice(1);
    }
    return "taken";
  }

  /** The tag after the value's end at the start of the text. */
  #tagBehindValue(text: string): string {
    const { valueEnd, key, end, close, isOnOwnLine } = this.#tags;
    const ending = isOnOwnLine && text.startsWith("\n") ? text.slice(1) : text;
    if (valueEnd.startsWith(ending)) return "unknown";
    if (!ending.startsWith(valueEnd)) return "none";
    const behind = ending.slice(valueEnd.length).trimStart();
    const tags = this.#isLoose ? [key[0], end, close] : [key[0], end];
    if (tags.includes(behind)) return behind;
    return text.length <= MAX_END_LENGTH && tags.some((tag) => tag.startsWith(behind)) ? "unknown" : "none";
  }

  /**
   * Ends a value whose end tag the model omitted. On its own line, the tag of the next parameter ends the value, and so
   * does the end of all parameters if the call's end, another call or nothing follows. Both only count outside JSON
   * strings, and a parameter only if the schema has it and the call does not yet: a text that quotes such a tag on its
   * own line is split.
   * @param text from the line break on
   * @returns undefined: the text belongs to the value
   */
  #readEndWithoutTag(text: string): CallStep | undefined {
    const { key, end, name, close } = this.#tags;
    if (!text.startsWith("\n") || text.length > MAX_END_LENGTH || this.#scanner?.isInString === true) return undefined;
    const line = text.slice(1);
    if (line.startsWith(key[0])) return this.#readNextKey(line.slice(key[0].length));
    if ([key[0], end, close].some((tag) => tag.startsWith(line)) || this.#isEndWithoutTag(text.trimEnd())) {
      return line.length > end.length && line.startsWith(end) ? "held" : "taken";
    }
    if (!line.startsWith(end)) return undefined;
    const behind = line.slice(end.length).trimStart();
    const next = [close, name[0]].find((tag) => tag.startsWith(behind));
    if (next === undefined) return undefined;
    return behind === next ? this.#endValueBefore(next) : "held";
  }

  /** @param text after the beginning of a parameter's tag, which may end the value before it */
  #readNextKey(text: string): CallStep | undefined {
    const [start, end] = this.#tags.key;
    const named = namedParameters(this.#sink.tools.get(this.#name));
    if (named === undefined) return text === "" ? this.#endValueBefore(start) : undefined;
    if (!text.endsWith(end)) return text.includes("\n") ? undefined : "taken";
    const key = text.slice(0, -end.length);
    if (this.#given.has(key) || !Object.hasOwn(named, key)) return undefined;
    let step = this.#endValueBefore(start);
    for (const char of text) step = this.#read(char);
    return step;
  }

  #isEndWithoutTag(text: string): boolean {
    return this.#isLoose && (text === `\n${this.#tags.end}` || text === `\n${this.#tags.close}`);
  }

  /** @param next the tag after the value */
  #endValueBefore(next: string): CallStep {
    const { key, end, close } = this.#tags;
    this.#endValue();
    if (next === key[0] || next === end) return this.#startNext(next);
    this.#startNext(end);
    if (next === close) return "ended";
    this.#startCall(next);
    return "held";
  }

  #endValue(): void {
    this.#sink.arguments(isText(this.#types) ? '"' : jsonOfText(this.#value, this.#types));
  }

  #takeUnit(unit: string): void {
    const isLineBreak = this.#isFirstUnit && this.#tags.isOnOwnLine && unit === "\n";
    this.#isFirstUnit = false;
    if (isLineBreak) return;
    if (isText(this.#types)) this.#sink.arguments(jsonUnit(unit));
    else this.#value += unit;
    if (this.#scanner?.push(unit) === false) this.#scanner = undefined;
  }

  /** White space, followed by one of the tags. */
  #expect(char: string, tags: readonly string[], then: (tag: string) => CallStep): CallStep {
    const soFar = this.#stepSoFar();
    if (this.#text === "" && isJsonSpace(char)) return soFar;
    this.#text += char;
    if (tags.includes(this.#text)) return then(this.#text);
    return tags.some((tag) => tag.startsWith(this.#text)) ? soFar : "rejected";
  }

  /** Inside a call, all text that fits belongs to the call; after its end, only the whole tag does. */
  #stepSoFar(): CallStep {
    return this.#hasBegun && this.#state !== "closing" ? "taken" : "held";
  }

  #enter(state: State): void {
    this.#state = state;
    this.#text = "";
  }
}

function formatOf(name: string, tags: Tags, lineBreak: string): ToolCallFormat {
  const { open, key, value, valueEnd, end, close, isOnOwnLine } = tags;
  const inner = isOnOwnLine ? "\n" : "";
  const behindName = tags.name[1] + lineBreak;
  return {
    name,
    openers: [open],
    startOpeners: [],
    markers: [open, close === "" ? end : close, valueEnd, ...(value === "" ? [] : [key[0], key[1], value])],
    spelling: {
      start: tags.name[0] === "" ? open : `${open}${lineBreak}`,
      beforeName: tags.name[0],
      beforeArguments: behindName,
      parameters: {
        beforeKey: key[0],
        beforeValue: `${key[1]}${value === "" ? "" : lineBreak}${value}${inner}`,
        afterValue: `${inner}${valueEnd}${lineBreak}`,
        valueEnd,
        between: "",
      },
      afterArguments: close === "" ? end : `${end}${lineBreak}${close}`,
      between: `${lineBreak}${open}${tags.name[0] === "" ? "" : lineBreak}`,
      end: "",
    },
    startRegion: (opener, sink) => new TaggedCall(tags, sink, opener === open ? "" : opener),
  };
}

const FUNCTION_TAGS = {
  name: ["<function=", ">"],
  key: ["<parameter=", ">"],
  value: "",
  valueEnd: "</parameter>",
  end: "</function>",
} as const;

const GLM_TAGS: Tags = {
  open: "<tool_call>",
  name: ["", ""],
  key: ["<arg_key>", "</arg_key>"],
  value: "<arg_value>",
  valueEnd: "</arg_value>",
  end: "</tool_call>",
  close: "",
  isOnOwnLine: false,
};

export const qwen3Coder: ToolCallFormat = {
  ...formatOf("qwen3_coder", { ...FUNCTION_TAGS, open: "<tool_call>", close: "</tool_call>", isOnOwnLine: true }, "\n"),
  looseOpeners: [FUNCTION_TAGS.name[0]],
};

export const seedOss = formatOf(
  "seed_oss",
  { ...FUNCTION_TAGS, open: "<seed:tool_call>", close: "</seed:tool_call>", isOnOwnLine: false },
  "\n",
);

export const minimaxM2 = formatOf(
  "minimax_m2",
  {
    open: "<minimax:tool_call>",
    name: ['<invoke name="', '">'],
    key: ['<parameter name="', '">'],
    value: "",
    valueEnd: "</parameter>",
    end: "</invoke>",
    close: "</minimax:tool_call>",
    isOnOwnLine: false,
  },
  "\n",
);

/** From 4.7 on, templates have no line breaks between the tags. */
export function glm(templateSource: string): ToolCallFormat {
  const isOnOneLine = templateSource.includes("</arg_key><arg_value>");
  return formatOf("glm45", GLM_TAGS, isOnOneLine ? "" : "\n");
}
