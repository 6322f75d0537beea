/**
 * Calls as a JSON list behind an opener: Granite 3 (`<|tool_call|>[{"name": …, "arguments": {…}}, …]`) and Phi-4-mini,
 * which ends them with `<|/tool_call|>`, or writes `functools[…]` where its template says so.
 */
import type { ToolCallFormat } from "./call-format.js";
import { CallsInTags } from "./calls-in-tags.js";

const TOOL_CALL = "<|tool_call|>";
const TOOL_CALL_END = "<|/tool_call|>";
const FUNCTOOLS = "functools";

const OBJECT = { beforeName: '{"name": "', beforeArguments: '", "arguments":', afterArguments: "}" };

export const granite: ToolCallFormat = {
  name: "granite",
  openers: [TOOL_CALL],
  startOpeners: [],
  markers: [TOOL_CALL],
  spelling: { start: `${TOOL_CALL}[`, ...OBJECT, between: ", ", end: "]" },
  startRegion: (_opener, sink) => new CallsInTags(sink, TOOL_CALL_END),
};

/** The template shows the opener, and whether each call stands alone behind one or all stand in a list. */
export function phi4Mini(templateSource: string): ToolCallFormat {
  const writesFunctools = templateSource.includes(`${FUNCTOOLS}[`);
  const opener = writesFunctools ? FUNCTOOLS : TOOL_CALL;
  const end = writesFunctools ? "" : TOOL_CALL_END;
  const isAlone = templateSource.includes(`${TOOL_CALL}{`);
  return {
    name: "phi4_mini_json",
    openers: [opener],
    startOpeners: [],
    markers: [TOOL_CALL, TOOL_CALL_END],
    spelling: isAlone
      ? { start: opener, ...OBJECT, afterArguments: `}${end}`, between: opener, end: "" }
      : { start: `${opener}[`, ...OBJECT, between: ", ", end: `]${end}` },
    startRegion: (_opener, sink) => new CallsInTags(sink, TOOL_CALL_END),
  };
}
