/** The formats by name, and which of them a chat template teaches its model. */
import type { CallSyntax, ToolCallFormat } from "./call-format.js";
import { harmony, speaksHarmony } from "./harmony.js";
import { hermes } from "./hermes.js";
import { llama3Json } from "./llama3-json.js";
import { mistral } from "./mistral.js";

export const TOOL_CALL_PARSERS = ["auto", "harmony", "hermes", "llama3_json", "mistral"] as const;
export type ToolCallParserName = (typeof TOOL_CALL_PARSERS)[number];

/** Some models put XML instead of JSON inside Hermes' tags. */
const XML_INSIDE = /<function=|<arg_key>/;
const LLAMA_CALL = /<\|python_tag\|>|"name": function name, "parameters"/;

function detect(templateSource: string): Exclude<ToolCallParserName, "auto"> | undefined {
  if (speaksHarmony(templateSource)) return "harmony";
  if (templateSource.includes("[TOOL_CALLS]")) return "mistral";
  if (templateSource.includes("<tool_call>")) return XML_INSIDE.test(templateSource) ? undefined : "hermes";
  return LLAMA_CALL.test(templateSource) ? "llama3_json" : undefined;
}

/** Undefined if `auto` finds no known format in the template. */
export function toolCallFormat(
  parser: ToolCallParserName,
  templateSource: string,
): ToolCallFormat | CallSyntax | undefined {
  const name = parser === "auto" ? detect(templateSource) : parser;
  switch (name) {
    case "harmony":
      return harmony;
    case "hermes":
      return hermes;
    case "llama3_json":
      return llama3Json;
    case "mistral":
      return mistral(templateSource);
    case undefined:
      return undefined;
  }
}
