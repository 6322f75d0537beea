/** The fields of a request that are about tools: their schema, and what a request asks for with them. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { GrammarFunction } from "../../text/tool-calls/call-grammar.js";
import { callOpening, type ToolCallFormat } from "../../text/tool-calls/format.js";
import type { PromptContext } from "../context.js";
import { describeValue } from "./describe-value.js";
import { checked } from "./schema-parts.js";

const MAX_TOOLS = 128;
const NAME_PATTERN = /^[a-zA-Z0-9_-]+$/;

const nameUpTo = (maxLength: number) =>
  checked<string>(
    `a name of 1 to ${maxLength} letters, digits, _ or -`,
    (value) => typeof value === "string" && value.length <= maxLength && NAME_PATTERN.test(value),
  );

export const nameField = nameUpTo(64);
/** Anthropic's clients put a server's name before each of its tools'. */
export const longNameField = nameUpTo(128);

export const parametersField = checked<Record<string, unknown>>(
  "an object (a JSON schema)",
  (value) => typeof value === "object" && value !== null && !Array.isArray(value),
);

const toolSchema = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: nameField,
    description: z.string().nullish(),
    parameters: parametersField.nullish(),
    strict: z.boolean().nullish(),
  }),
});

export type ToolField = z.output<typeof toolSchema>;
export const toolsField = z.array(toolSchema).max(MAX_TOOLS);

export const toolChoiceField = z.union([
  z.enum(["none", "auto", "required"]),
  z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: nameField }) }),
]);

/** An assistant's calls, sent back, with whatever clients put beside them. */
export const toolCallsField = z.array(
  z.object({
    id: z.string(),
    type: z.literal("function").nullish(),
    function: z.object({ name: z.string(), arguments: z.string() }),
  }),
);

export interface ToolFields {
  readonly tools?: readonly ToolField[] | undefined;
  /** Where a tool of the request has its schema; "function.parameters" when missing. */
  readonly schemaField?: string;
  readonly tool_choice?: z.output<typeof toolChoiceField> | undefined;
  readonly parallel_tool_calls?: boolean | undefined;
}

/** What a request wants to be done with tools. */
export interface ToolUse {
  readonly format: ToolCallFormat;
  /** As templates take them. */
  readonly tools: readonly object[];
  /** Functions that may be called. */
  readonly functions: readonly GrammarFunction[];
  /** The answer is to end with its first call. */
  readonly isSingle: boolean;
  /** The answer is to be a call: of the one function there is, or of any. */
  readonly forced: "named" | "any" | undefined;
  /** Text that a forced call begins the answer with; "" where the model is free. */
  readonly opening: string;
}

/** @param pathOf a function's name in the request */
export function assertDistinctNames(
  functions: readonly { readonly name: string }[],
  pathOf: (index: number) => string,
): void {
  const names = new Set<string>();
  for (const [index, { name }] of functions.entries()) {
    if (names.has(name)) {
      const param = pathOf(index);
      throw new MillraceError("invalid_parameter", `${param}: expected names that differ, got "${name}" twice`, {
        param,
      });
    }
    names.add(name);
  }
}

/** The tools as a template takes them; undefined where there are none. */
export function templateTools(
  context: PromptContext,
  tools: readonly ToolField[] | undefined,
): readonly object[] | undefined {
  if (tools === undefined || tools.length === 0) return undefined;
  const functions = tools.map((tool) => tool.function);
  assertDistinctNames(functions, (index) => `tools[${index}].function.name`);
  if (!context.chatFormat.takesTools) {
    throw new MillraceError(
      "unsupported_field",
      `tools: expected a model whose chat template takes tools, got ${describeValue(tools)} and a template that never mentions them`,
      { param: "tools", hint: "use a model made for tools, or start the server with another --chat-template" },
    );
  }
  return tools.map(({ type, function: { name, description, parameters } }) => ({
    type,
    function: { name, ...(description == null ? {} : { description }), ...(parameters == null ? {} : { parameters }) },
  }));
}

function callFormat(context: PromptContext): ToolCallFormat {
  const { toolCalls } = context.chatFormat;
  if (toolCalls !== undefined) return toolCalls;
  throw new MillraceError(
    "unsupported_field",
    "tools: expected a model whose tool calls can be read, got a chat template that shows no format known here",
    { param: "tools", hint: "name the format with --tool-call-parser when starting the server" },
  );
}

/** The function that must be called; undefined where any may be. */
function forcedName({ tool_choice: choice, tools = [] }: ToolFields): string | undefined {
  if (typeof choice !== "object") return undefined;
  const { name } = choice.function;
  if (tools.some((tool) => tool.function.name === name)) return name;
  throw new MillraceError("invalid_parameter", `tool_choice: expected the name of one of the tools, got "${name}"`, {
    param: "tool_choice",
  });
}

/** undefined: the answer is text, whatever it looks like. */
export function toolUseOf(context: PromptContext, fields: ToolFields): ToolUse | undefined {
  const choice = fields.tool_choice ?? "auto";
  const name = forcedName(fields);
  const isForced = choice !== "auto" && choice !== "none";
  if (isForced && (fields.tools ?? []).length === 0) {
    throw new MillraceError(
      "invalid_parameter",
      `tool_choice: expected tools beside it, got ${describeValue(choice)} alone`,
      {
        param: "tool_choice",
      },
    );
  }
  // Without a template there is no chat at all, which is the better complaint.
  if (choice === "none" || context.chatTemplate === undefined) return undefined;
  const tools = templateTools(context, fields.tools);
  if (tools === undefined) return undefined;
  const format = callFormat(context);
  const functions = grammarFunctions(fields);
  return {
    format,
    tools,
    functions: name === undefined ? functions : functions.filter((each) => each.name === name),
    isSingle: name !== undefined || fields.parallel_tool_calls === false,
    forced: name !== undefined ? "named" : isForced ? "any" : undefined,
    opening: isForced ? callOpening(format, name) : "",
  };
}

function grammarFunctions({ tools = [], schemaField = "function.parameters" }: ToolFields): GrammarFunction[] {
  return tools.map(({ function: { name, parameters, strict } }, index) => ({
    name,
    parameters: parameters ?? undefined,
    isStrict: strict === true,
    param: `tools[${index}].${schemaField}`,
  }));
}
