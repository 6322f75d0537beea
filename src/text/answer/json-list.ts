/**
 * Calls as a JSON list after an opener: Granite 3 (`<|tool_call|>[{"name": …, "arguments": {…}}, …]`), Nemotron,
 * Hunyuan and Phi-4-mini, which end the list with a tag. Phi-4-mini writes `functools[…]` if its template shows that.
 */
import type { ToolCallFormat } from "./call-format.js";
import { CallObjects } from "./call-object.js";
import { CallsInTags } from "./calls-in-tags.js";

const TOOL_CALL = "<|tool_call|>";
const TOOL_CALL_END = "<|/tool_call|>";
/** Includes the bracket, because the word alone is a Python module. */
const FUNCTOOLS = "functools[";

const OBJECT = { beforeName: '{"name": "', beforeArguments: '", "arguments":', afterArguments: "}" };

/** @param close "": only the list's bracket ends it */
function listFormat(name: string, open: string, close: string): ToolCallFormat {
  return {
    name,
    openers: [open],
    startOpeners: [],
    markers: close === "" ? [open] : [open, close],
    spelling: { start: `${open}[`, ...OBJECT, between: ", ", end: `]${close}` },
    startRegion: (_opener, sink) => new CallsInTags(sink, close),
  };
}

/** Granite 3.1 also writes other models' openers. */
export const granite: ToolCallFormat = { ...listFormat("granite", TOOL_CALL, ""), looseOpeners: ["<tool_call>"] };
export const hunyuan = listFormat("hunyuan_a13b", "<tool_calls>", "</tool_calls>");
export const nemotron = listFormat("nemotron_json", "<TOOLCALL>", "</TOOLCALL>");
const phi4List = listFormat("phi4_mini_json", TOOL_CALL, TOOL_CALL_END);

const phi4Each: ToolCallFormat = {
  ...phi4List,
  spelling: { start: TOOL_CALL, ...OBJECT, afterArguments: `}${TOOL_CALL_END}`, between: TOOL_CALL, end: "" },
};

const functools: ToolCallFormat = {
  name: "phi4_mini_json",
  openers: [FUNCTOOLS],
  startOpeners: [],
  markers: [],
  spelling: { start: FUNCTOOLS, ...OBJECT, between: ", ", end: "]" },
  startRegion: (_opener, sink) => new CallObjects(sink, { separator: ",", end: "]" }),
};

/** The template shows the opener, and whether an opener precedes each single call or a list of all calls. */
export function phi4Mini(templateSource: string): ToolCallFormat {
  if (templateSource.includes(FUNCTOOLS)) return functools;
  return templateSource.includes(`${TOOL_CALL}{`) ? phi4Each : phi4List;
}
