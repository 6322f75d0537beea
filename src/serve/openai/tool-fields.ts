/** The tool fields of a request: their schema, and the wishes they express. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { callOpening, type ToolCallFormat } from "../../text/answer/call-format.js";
import type { GrammarFunction } from "../../text/answer/call-grammar.js";
import type { PromptContext } from "../http/context.js";
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

type ToolField = z.output<typeof toolSchema>;
export const toolsField = z.array(toolSchema).max(MAX_TOOLS);

const namedChoice = z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: nameField }) });

/** Fewer tools than there are. */
const allowedChoice = z.strictObject({
  type: z.literal("allowed_tools"),
  allowed_tools: z.strictObject({ mode: z.enum(["auto", "required"]), tools: z.array(namedChoice).min(1) }),
});

export const toolChoiceField = z.union([z.enum(["none", "auto", "required"]), namedChoice, allowedChoice]);

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

/** A request's wishes about tools. */
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
  isShown: (tool: ToolField) => boolean = () => true,
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
  return tools.filter(isShown).map(({ type, function: { name, description, parameters } }) => ({
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

interface Choice {
  readonly mode: "none" | "auto" | "required";
  /** The functions that may be called; undefined: all. */
  readonly names: ReadonlySet<string> | undefined;
  /** The one that must be. */
  readonly forcedName: string | undefined;
}

function choiceOf({ tool_choice: choice = "auto", tools = [] }: ToolFields): Choice {
  if (typeof choice === "string") return { mode: choice, names: undefined, forcedName: undefined };
  const isAllowed = choice.type === "allowed_tools";
  const chosen = isAllowed ? choice.allowed_tools.tools : [choice];
  const names = new Set(chosen.map((each) => each.function.name));
  const unknown = [...names].find((name) => !tools.some((tool) => tool.function.name === name));
  if (unknown !== undefined) {
    const message = `tool_choice: expected the name of one of the tools, got "${unknown}"`;
    throw new MillraceError("invalid_parameter", message, { param: "tool_choice" });
  }
  if (isAllowed) return { mode: choice.allowed_tools.mode, names, forcedName: undefined };
  return { mode: "required", names, forcedName: choice.function.name };
}

/** undefined: the answer is text, whatever it looks like. */
export function toolUseOf(context: PromptContext, fields: ToolFields): ToolUse | undefined {
  const { mode, names, forcedName } = choiceOf(fields);
  const isForced = mode === "required";
  if (isForced && (fields.tools ?? []).length === 0) {
    throw new MillraceError(
      "invalid_parameter",
      `tool_choice: expected tools beside it, got ${describeValue(fields.tool_choice)} alone`,
      {
        param: "tool_choice",
      },
    );
  }
  // Without a template there is no chat at all, which is the better complaint.
  if (mode === "none" || context.chatTemplate === undefined) return undefined;
  // A model that must call a certain function sees all of them; one that is free sees only those that it may call.
  const isShown = ({ function: { name } }: ToolField) => forcedName !== undefined || names?.has(name) !== false;
  const tools = templateTools(context, fields.tools, isShown);
  if (tools === undefined) return undefined;
  const format = callFormat(context);
  return {
    format,
    tools,
    functions: grammarFunctions(fields).filter(({ name }) => names?.has(name) !== false),
    isSingle: forcedName !== undefined || fields.parallel_tool_calls === false,
    forced: forcedName !== undefined ? "named" : isForced ? "any" : undefined,
    opening: isForced ? callOpening(format, forcedName) : "",
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
