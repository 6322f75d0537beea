/**
 * Calls between markers, most of which are special tokens: a section contains calls, and each call has a head with its
 * name, and its arguments as JSON.
 *
 *   DeepSeek V3, R1: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME, then the arguments in a block of
 *                    code, <｜tool▁call▁end｜> … <｜tool▁calls▁end｜>
 *   DeepSeek V3.1:   the same with <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
 *   Kimi K2:         <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:NUMBER<|tool_call_argument_begin|>{…}
 *                    <|tool_call_end|> … <|tool_calls_section_end|>
 *   GLM-4-0414:      NAME, {…} on the next line, and before each further call <|assistant|>; its texts begin with a line
 *                    break
 *
 * Models may omit the section's opener.
 */
import type { CallRegion, CallSink, CallSpelling, CallStep, ToolCallFormat } from "./call-format.js";
import { isJsonSpace, JsonScanner } from "./json-scanner.js";

interface Marks {
  /** Enclose all calls. */
  readonly section: readonly [open: string, close: string];
  /** Enclose each call. */
  readonly call: readonly [open: string, close: string];
  /** Separates the parts of a head. */
  readonly separator: string;
  /** Optional text between the arguments and the call's end. */
  readonly fence?: string;
  /** @param parts of the head, without surrounding white space */
  readonly nameOf: (first: string, second: string) => string;
}

/** Exceeds every name with its surrounding texts; the limit keeps text from accumulating. */
const MAX_HEAD_LENGTH = 264;

class MarkedCalls implements CallRegion {
  readonly #marks: Marks;
  readonly #sink: CallSink;
  #state: "start" | "head" | "arguments" | "behind";
  /** The head or the marker so far. */
  #text = "";
  #scanner = new JsonScanner();

  constructor(marks: Marks, sink: CallSink, opener: string) {
    this.#marks = marks;
    this.#sink = sink;
    this.#state = opener === marks.section[0] ? "start" : "head";
    // In formats whose calls begin with a name, the opener is that name.
    if (opener !== marks.section[0] && opener !== marks.call[0]) this.#text = opener;
  }

  push(char: string): CallStep {
    if (this.#state === "arguments") return this.#readArguments(char);
    return this.#state === "head" ? this.#readHead(char) : this.#readMarker(char);
  }

  #readHead(char: string): CallStep {
    if (char !== "{") {
      this.#text += char;
      return this.#text.length <= MAX_HEAD_LENGTH ? "held" : "rejected";
    }
    const { separator, nameOf } = this.#marks;
    const end = this.#text.indexOf(separator);
    const name = nameOf(this.#text.slice(0, end).trim(), this.#text.slice(end + separator.length).trim());
    if (end === -1 || !this.#sink.tools.has(name)) return "rejected";
    this.#sink.begin(name);
    this.#state = "arguments";
    this.#scanner = new JsonScanner();
    return this.#readArguments(char);
  }

  #readArguments(char: string): CallStep {
    if (!this.#scanner.push(char)) return "rejected";
    this.#sink.arguments(char);
    if (this.#scanner.isClosed) {
      this.#sink.end();
      this.#state = "behind";
      this.#text = "";
    }
    return "taken";
  }

  /** Models omit ends or repeat them: any end or the next call may follow a call. */
  #readMarker(char: string): CallStep {
    if (this.#text === "" && isJsonSpace(char)) return "held";
    this.#text += char;
    const { section, call, fence } = this.#marks;
    const markers =
      this.#state === "start" ? [call[0]] : [...call, section[1], ...(fence === undefined ? [] : [fence])];
    const marker = markers.find((each) => each.startsWith(this.#text));
    if (marker !== this.#text) return marker === undefined ? "rejected" : "held";
    this.#text = "";
    if (marker !== call[0]) return "taken";
    this.#state = "head";
    return "held";
  }
}

type Spelled = Pick<CallSpelling, "beforeName" | "beforeNumber" | "beforeArguments" | "afterArguments" | "between">;

function markedFormat(name: string, marks: Marks, spelling: Spelled): ToolCallFormat {
  const { section, call, separator } = marks;
  return {
    name,
    openers: [section[0]],
    startOpeners: [],
    looseOpeners: [call[0]],
    markers: [...section, ...call, separator],
    spelling: { start: section[0], ...spelling, end: section[1] },
    startRegion: (opener, sink) => new MarkedCalls(marks, sink, opener),
  };
}

const FENCE = "```";

/** The reader accepts both forms, because models of one write the other. */
const DEEPSEEK: Marks = {
  section: ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
  call: ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"],
  separator: "<｜tool▁sep｜>",
  fence: FENCE,
  nameOf: (first, second) => second.replace(/\s*```(?:json)?$/, "") || first,
};
const [DEEPSEEK_OPEN, DEEPSEEK_CLOSE] = DEEPSEEK.call;

/**
 * DeepSeek's own templates leave the tools to the system message. These are the words of V3.1's model card, with the
 * format's own form of a call.
 */
function deepseek(name: string, spelling: Spelled): ToolCallFormat {
  const format = markedFormat(name, DEEPSEEK, spelling);
  const { start, beforeName, beforeArguments, afterArguments, between, end } = format.spelling;
  const toolsTemplate = `## Tools
You have access to the following tools:
{% for tool in tools or [] %}

### {{ tool.function.name }}
Description: {{ tool.function.description }}

Parameters: {{ (tool.function.parameters or {}) | tojson }}
{% endfor %}

IMPORTANT: ALWAYS adhere to this exact format for tool use:
${start}${beforeName}tool_call_name${beforeArguments}tool_call_arguments${afterArguments}{additional_tool_calls}${end}

Where:
- \`tool_call_name\` must be an exact match to one of the available tools
- \`tool_call_arguments\` must be valid JSON that strictly follows the tool's Parameters Schema
- For multiple tool calls, ${between === "" ? "chain them directly without separators or spaces" : "begin each on a new line"}`;
  return { ...format, toolsTemplate };
}

export const deepseekV3 = deepseek("deepseek_v3", {
  beforeName: `${DEEPSEEK_OPEN}function${DEEPSEEK.separator}`,
  beforeArguments: `\n${FENCE}json\n`,
  afterArguments: `\n${FENCE}${DEEPSEEK_CLOSE}`,
  between: "\n",
});

export const deepseekV31 = deepseek("deepseek_v31", {
  beforeName: DEEPSEEK_OPEN,
  beforeArguments: DEEPSEEK.separator,
  afterArguments: DEEPSEEK_CLOSE,
  between: "",
});

const KIMI: Marks = {
  section: ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
  call: ["<|tool_call_begin|>", "<|tool_call_end|>"],
  separator: "<|tool_call_argument_begin|>",
  nameOf: (first, second) => (second === "" ? first.replace(/^functions\./, "").replace(/:\d+$/, "") : ""),
};

export const kimiK2: ToolCallFormat = {
  ...markedFormat("kimi_k2", KIMI, {
    beforeName: `${KIMI.call[0]}functions.`,
    beforeNumber: ":",
    beforeArguments: KIMI.separator,
    afterArguments: KIMI.call[1],
    between: "",
  }),
  endsThought: true,
  // The model copies the pattern of the ids that it sees.
  templateCallId: (id, name, number) => (name === undefined ? id : `functions.${name}:${number}`),
};

const GLM4: Marks = {
  section: ["", ""],
  call: ["<|assistant|>", ""],
  separator: "\n",
  nameOf: (first, second) => (second === "" ? first : ""),
};

export const glm4: ToolCallFormat = {
  ...markedFormat("glm4", GLM4, {
    beforeName: "",
    beforeArguments: GLM4.separator,
    afterArguments: "",
    between: GLM4.call[0],
  }),
  openers: [GLM4.call[0]],
  markers: [GLM4.call[0]],
  startsWithName: true,
};
