/**
 * Calls as a JSON list behind an opener: Granite 3 (`<|tool_call|>[{"name": …, "arguments": {…}}, …]`) and Phi-4-mini,
 * which ends them with `<|/tool_call|>`, or writes `functools[…]` where its template says so.
 */
import type { ToolCallFormat } from "./call-format.js";
import { CallObjects } from "./call-object.js";
import { CallsInTags } from "./calls-in-tags.js";

const TOOL_CALL = "<|tool_call|>";
const TOOL_CALL_END = "<|/tool_call|>";
/** The bracket is part of it, because the word alone is a module of Python. */
const FUNCTOOLS = "functools[";

const OBJECT = { beforeName: '{"name": "', beforeArguments: '", "arguments":', afterArguments: "}" };

export const granite: ToolCallFormat = {
  name: "granite",
  openers: [TOOL_CALL],
  startOpeners: [],
  markers: [TOOL_CALL],
  spelling: { start: `${TOOL_CALL}[`, ...OBJECT, between: ", ", end: "]" },
  startRegion: (_opener, sink) => new CallsInTags(sink, TOOL_CALL_END),
};

const functools: ToolCallFormat = {
  name: "phi4_mini_json",
  openers: [FUNCTOOLS],
  startOpeners: [],
  markers: [],
  spelling: { start: FUNCTOOLS, ...OBJECT, between: ", ", end: "]" },
  startRegion: (_opener, sink) => new CallObjects(sink, { separator: ",", end: "]" }),
};

/** The template shows the opener, and whether each call stands alone behind one or all stand in a list. */
export function phi4Mini(templateSource: string): ToolCallFormat {
  if (templateSource.includes(FUNCTOOLS)) return functools;
  return {
    name: "phi4_mini_json",
    openers: [TOOL_CALL],
    startOpeners: [],
    markers: [TOOL_CALL, TOOL_CALL_END],
    spelling: templateSource.includes(`${TOOL_CALL}{`)
      ? { start: TOOL_CALL, ...OBJECT, afterArguments: `}${TOOL_CALL_END}`, between: TOOL_CALL, end: "" }
      : { start: `${TOOL_CALL}[`, ...OBJECT, between: ", ", end: `]${TOOL_CALL_END}` },
    startRegion: (_opener, sink) => new CallsInTags(sink, TOOL_CALL_END),
  };
}
