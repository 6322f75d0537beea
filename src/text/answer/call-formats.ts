/** The formats by name, and the choice of a format by a model's chat template. */
import { takesMetadata } from "../template/calls-as-metadata.js";
import type { CallSyntax } from "./call-format.js";
import { gemma4 } from "./gemma.js";
import { harmony, speaksHarmony } from "./harmony.js";
import { hermes } from "./hermes.js";
import { granite, hunyuan, nemotron, phi4Mini } from "./json-list.js";
import { llama3Json } from "./llama3-json.js";
import { deepseekV3, deepseekV31, glm4, kimiK2 } from "./marked-calls.js";
import { mistral } from "./mistral.js";
import { lfm2, olmo3 } from "./pythonic.js";
import { glm, minimaxM2, qwen3Coder, seedOss } from "./tagged-parameters.js";

/** In the order of their names, which are vLLM's. */
const FORMATS = {
  deepseek_v3: () => deepseekV3,
  deepseek_v31: () => deepseekV31,
  gemma4: () => gemma4,
  glm4: () => glm4,
  glm45: glm,
  granite: () => granite,
  harmony: () => harmony,
  hermes: () => hermes,
  hunyuan_a13b: () => hunyuan,
  kimi_k2: () => kimiK2,
  lfm2: () => lfm2,
  llama3_json: () => llama3Json,
  minimax_m2: () => minimaxM2,
  mistral,
  nemotron_json: () => nemotron,
  olmo3: () => olmo3,
  phi4_mini_json: phi4Mini,
  qwen3_coder: () => qwen3Coder,
  seed_oss: () => seedOss,
} as const satisfies Readonly<Record<string, (templateSource: string) => CallSyntax>>;

type FormatName = keyof typeof FORMATS;
export type ToolCallParserName = "auto" | FormatName;
export const TOOL_CALL_FORMATS = Object.keys(FORMATS) as FormatName[];
export const TOOL_CALL_PARSERS: readonly ToolCallParserName[] = ["auto", ...TOOL_CALL_FORMATS];

/** The texts in a template that show each format; the first match decides. */
const SIGNS: readonly (readonly [name: FormatName, isShown: (templateSource: string) => boolean])[] = [
  ["harmony", speaksHarmony],
  // Only quotes and line breaks stand between the name and the code block.
  ["deepseek_v3", (source) => /<｜tool▁sep｜>[^｜]*```json/.test(source)],
  ["deepseek_v31", (source) => source.includes("<｜tool▁sep｜>")],
  // The templates of the first weeks print the tools, but not the form of calls.
  ["kimi_k2", (source) => /<\|tool_calls_section_begin\|>|tool_declare<\|im_middle\|>/.test(source)],
  ["nemotron_json", (source) => source.includes("<TOOLCALL>")],
  ["gemma4", (source) => source.includes("<|tool_call>call:")],
  ["mistral", (source) => source.includes("[TOOL_CALLS]")],
  ["minimax_m2", (source) => source.includes("<minimax:tool_call>")],
  ["seed_oss", (source) => source.includes("<seed:tool_call>")],
  // LFM2.5's templates have no tags around the list, and do not show the tags around calls.
  ["lfm2", (source) => /<\|tool_(call|list)_start\|>|List of tools: \[/.test(source)],
  // Other models' templates use this tag name for XML.
  ["olmo3", (source) => source.includes("<function_calls>") && !source.includes("<invoke")],
  ["phi4_mini_json", (source) => /<\|\/tool_call\|>|functools\[|<\|\/tool\|>/.test(source)],
  ["granite", (source) => source.includes("<|tool_call|>")],
  ["glm45", (source) => source.includes("<tool_call>") && source.includes("<arg_key>")],
  ["hunyuan_a13b", (source) => source.includes("<tool_calls>")],
  ["qwen3_coder", (source) => source.includes("<tool_call>") && source.includes("<function=")],
  ["hermes", (source) => source.includes("<tool_call>")],
  ["glm4", takesMetadata],
  ["llama3_json", (source) => /<\|python_tag\|>|"name": function name, "parameters"/.test(source)],
];

/** Undefined if `auto` finds no known format in the template. */
export function toolCallFormat(parser: ToolCallParserName, templateSource: string): CallSyntax | undefined {
  const name = parser === "auto" ? SIGNS.find(([, isShown]) => isShown(templateSource))?.[0] : parser;
  return name === undefined ? undefined : FORMATS[name](templateSource);
}
