/**
 * Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one element per call; the reader also
 * accepts a list of calls in one element.
 */
import type { ToolCallFormat } from "./call-format.js";
import { CallsInTags } from "./calls-in-tags.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export const hermes: ToolCallFormat = {
  name: "hermes",
  openers: [OPEN],
  startOpeners: [],
  markers: [OPEN, CLOSE],
  spelling: {
    start: `${OPEN}\n`,
    beforeName: '{"name": "',
    // The text ends before the space, because models write the space and the brace as one token.
    beforeArguments: '", "arguments":',
    afterArguments: `}\n${CLOSE}`,
    between: `\n${OPEN}\n`,
    end: "",
  },
  startRegion: (_opener, sink) => new CallsInTags(sink, CLOSE),
};
