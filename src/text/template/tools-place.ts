/**
 * Passes a request's tools to the place where the template reads them. Most templates read the variable `tools`, as in
 * transformers; SmolLM3's reads `xml_tools`, and Phi-4-mini's the member `tools` of its system message. These two
 * expect the functions alone.
 */

/** The fields of a template's input that this module reads. */
interface Input<Message> {
  readonly messages: readonly Message[];
  readonly tools?: readonly unknown[] | undefined;
  readonly kwargs?: Readonly<Record<string, unknown>> | undefined;
}

export type ToolsPlace = "variable" | "xml_tools" | "systemMessage";

export const TOOLS_PLACES: readonly ToolsPlace[] = ["variable", "xml_tools", "systemMessage"];

/** Phi-4-mini's own, for conversations without a system message. */
const SYSTEM_CONTENT = "You are a helpful assistant with some tools.";

/** The same input with its tools where the template reads them. */
export function withToolsAt<Message extends { readonly role: string }, Given extends Input<Message>>(
  place: ToolsPlace,
  input: Given & Input<Message>,
): Given {
  if (input.tools === undefined || place === "variable") return input;
  const functions = input.tools.map((tool) => (tool as { readonly function?: unknown }).function ?? tool);
  if (place === "xml_tools") return { ...input, tools: undefined, kwargs: { xml_tools: functions, ...input.kwargs } };
  const [first, ...others] = input.messages;
  const isSystem = first?.role === "system";
  const system = isSystem ? first : { role: "system", content: SYSTEM_CONTENT };
  const withTools = { ...system, tools: JSON.stringify(functions) };
  return { ...input, tools: undefined, messages: [withTools, ...(isSystem ? others : input.messages)] };
}
