/**
 * Llama 3: `{"name": …, "parameters": {…}}` as the whole answer or after `<|python_tag|>`; `;` or white space separates
 * several calls.
 */

import type { ToolCallFormat } from "./call-format.js";
import { CallObjects } from "./call-object.js";

const PYTHON_TAG = "<|python_tag|>";

export const llama3Json: ToolCallFormat = {
  name: "llama3_json",
  openers: [PYTHON_TAG],
  startOpeners: ["{"],
  markers: [PYTHON_TAG],
  spelling: {
    start: "",
    beforeName: '{"name": "',
    beforeArguments: '", "parameters":',
    afterArguments: "}",
    between: "; ",
    end: "",
  },
  startRegion: (opener, sink) => {
    const calls = new CallObjects(sink, { separator: ";" });
    if (opener === "{") calls.push(opener);
    return calls;
  },
};
