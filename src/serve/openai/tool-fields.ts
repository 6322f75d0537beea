/** The tool fields of a request: their schema and meaning. */

import { z } from "zod";
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { type CallSyntax, callOpening } from "../../text/answer/call-format.js";
import type { GrammarFunction } from "../../text/answer/call-grammar.js";
import type { PromptContext } from "../http/context.js";
import { checked } from "./schema-parts.js";

const MAX_TOOLS = 128;
const NAME_PATTERN = /^[a-zA-Z0-9_-]+$/;

const nameUpTo = (maxLength: number) =>
  checked<string>(
    `a name of 1 to ${maxLength} letters, digits, _ or -`,
    (value) => typeof value === "string" && value.length <= maxLength && NAME_PATTERN.test(value),
  );

export const nameField = nameUpTo(64);
/** Longer, since Anthropic's clients prefix each tool's name with its server's name. */
export const longNameField = nameUpTo(128);

export const parametersField = checked<Record<string, unknown>>("an object (a JSON schema)", (value) =>
  isPlainObject(value),
);

const functionSchema = z.strictObject({
  name: nameField,
  description: z.string().nullish(),
  parameters: parametersField.nullish(),
  strict: z.boolean().nullish(),
});

/** Fields beside the function, such as those for a provider's cache, are dropped. */
const toolSchema = z.object({ type: z.literal("function"), function: functionSchema });

type ToolField = z.output<typeof toolSchema>;
export const toolsField = z.array(toolSchema).max(MAX_TOOLS);

/** OpenAI's earlier fields for tools. */
export const functionsField = z.array(functionSchema).max(MAX_TOOLS);
export const functionChoiceField = z.union([z.enum(["none", "auto"]), z.strictObject({ name: nameField })]);

const namedChoice = z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: nameField }) });

/** Restricts calls to some of the tools. */
const allowedChoice = z.strictObject({
  type: z.literal("allowed_tools"),
  allowed_tools: z.strictObject({ mode: z.enum(["auto", "required"]), tools: z.array(namedChoice).min(1) }),
});

export const toolChoiceField = z.union([z.enum(["none", "auto", "required"]), namedChoice, allowedChoice]);

/** Calls of the assistant that the client sends back, with any fields that clients add. */
export const toolCallsField = z.array(
  z.object({
    id: z.string(),
    type: z.literal("function").nullish(),
    function: z.object({ name: z.string(), arguments: z.string() }),
  }),
);

/** The paths of a request's tool fields, for errors. */
interface ToolPaths {
  readonly list: string;
  /** The paths of name and schema within a tool. */
  readonly name: string;
  readonly schema: string;
  readonly choice: string;
}

const TOOL_PATHS: ToolPaths = {
  list: "tools",
  name: "function.name",
  schema: "function.parameters",
  choice: "tool_choice",
};
const FUNCTION_PATHS: ToolPaths = { list: "functions", name: "name", schema: "parameters", choice: "function_call" };
/** For tools whose function is not nested in them. */
export const flatToolPaths = (schema: string): ToolPaths => ({ ...TOOL_PATHS, name: "name", schema });

export interface ToolFields {
  readonly tools?: readonly ToolField[] | undefined;
  /** Not a request field; by default the paths of chat completions. */
  readonly toolPaths?: ToolPaths;
  readonly tool_choice?: z.output<typeof toolChoiceField> | undefined;
  readonly parallel_tool_calls?: boolean | undefined;
}

interface EarlierToolFields {
  readonly functions?: z.output<typeof functionsField> | undefined;
  readonly function_call?: z.output<typeof functionChoiceField> | undefined;
}

/** The same request, with `functions` and `function_call` converted to tools: at most one is called. */
export function withTools<Fields extends ToolFields & EarlierToolFields>(fields: Fields): Fields {
  const { functions, function_call: choice } = fields;
  const given = functions === undefined ? "function_call" : "functions";
  if (functions === undefined && choice === undefined) return fields;
  if (fields.tools !== undefined || fields.tool_choice !== undefined) {
    throw new MillraceError("invalid_parameter", `${given}: expected nothing beside tools and tool_choice, got both`, {
      param: given,
    });
  }
  const tools = functions?.map((each): ToolField => ({ type: "function", function: each }));
  const named = typeof choice === "object" ? { type: "function" as const, function: choice } : choice;
  return {
    ...fields,
    parallel_tool_calls: false,
    toolPaths: FUNCTION_PATHS,
    ...(tools === undefined || tools.length === 0 ? {} : { tools }),
    ...(named === undefined ? {} : { tool_choice: named }),
  };
}

/** How a request uses tools. */
export interface ToolUse {
  readonly format: CallSyntax;
  /** Tools in the templates' form. */
  readonly tools: readonly object[];
  /** Functions that may be called. */
  readonly functions: readonly GrammarFunction[];
  /** Whether the answer ends with its first call. */
  readonly isSingle: boolean;
  /** Whether the answer must be a call: "named" of the only function, "any" of any. */
  readonly forced: "named" | "any" | undefined;
  /** The text that opens an answer with a forced call; "" if no call is forced. */
  readonly opening: string;
}

/** @param pathOf path of a function's name in the request */
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

/** The tools in the templates' form; undefined if there are none. */
export function templateTools(
  context: PromptContext,
  tools: readonly ToolField[] | undefined,
  isShown: (tool: ToolField) => boolean = () => true,
  { list, name }: ToolPaths = TOOL_PATHS,
): readonly object[] | undefined {
  if (tools === undefined || tools.length === 0) return undefined;
  const functions = tools.map((tool) => tool.function);
  assertDistinctNames(functions, (index) => `${list}[${index}].${name}`);
  if (!context.chatFormat.takesTools) {
    throw new MillraceError(
      "unsupported_field",
      `${list}: expected a model whose chat template takes tools, got ${describeValue(tools)} for one that does not support tools`,
      { param: list, hint: "use a model made for tools, or start the server with another --chat-template" },
    );
  }
  return tools.filter(isShown).map(({ type, function: { name, description, parameters } }) => ({
    type,
    function: { name, ...(description == null ? {} : { description }), ...(parameters == null ? {} : { parameters }) },
  }));
}

function callFormat(context: PromptContext, { list }: ToolPaths): CallSyntax {
  const { toolCalls } = context.chatFormat;
  if (toolCalls !== undefined) return toolCalls;
  throw new MillraceError(
    "unsupported_field",
    `${list}: expected a model whose tool calls can be read, got a chat template that shows no format known here`,
    { param: list, hint: "name the format with --tool-call-parser when starting the server" },
  );
}

interface Choice {
  readonly mode: "none" | "auto" | "required";
  /** The functions that may be called; undefined: all. */
  readonly names: ReadonlySet<string> | undefined;
  /** The function that must be called. */
  readonly forcedName: string | undefined;
}

function choiceOf({ tool_choice: choice = "auto", tools = [], toolPaths: paths = TOOL_PATHS }: ToolFields): Choice {
  if (typeof choice === "string") return { mode: choice, names: undefined, forcedName: undefined };
  const isAllowed = choice.type === "allowed_tools";
  const chosen = isAllowed ? choice.allowed_tools.tools : [choice];
  const names = new Set(chosen.map((each) => each.function.name));
  const unknown = [...names].find((name) => !tools.some((tool) => tool.function.name === name));
  if (unknown !== undefined) {
    const message = `${paths.choice}: expected the name of one of the ${paths.list}, got "${unknown}"`;
    throw new MillraceError("invalid_parameter", message, { param: paths.choice });
  }
  if (isAllowed) return { mode: choice.allowed_tools.mode, names, forcedName: undefined };
  return { mode: "required", names, forcedName: choice.function.name };
}

/** Without a template, chat is unavailable; another check reports that with a better error. */
export function toolUseOf(context: PromptContext, fields: ToolFields, numCalls: number): ToolUse | undefined {
  const { mode, names, forcedName } = choiceOf(fields);
  const { toolPaths: paths = TOOL_PATHS } = fields;
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
  // Without a template chat is unavailable; another check reports that with a better error.
  if (mode === "none" || context.chatTemplate === undefined) return undefined;
  // If a particular function must be called, the prompt shows all functions; otherwise only those that may be called.
  const isShown = ({ function: { name } }: ToolField) => forcedName !== undefined || names?.has(name) !== false;
  const tools = templateTools(context, fields.tools, isShown, paths);
  if (tools === undefined) return undefined;
  const format = callFormat(context, paths);
  return {
    format,
    tools,
    functions: grammarFunctions(fields).filter(({ name }) => names?.has(name) !== false),
    isSingle: forcedName !== undefined || fields.parallel_tool_calls === false,
    forced: forcedName !== undefined ? "named" : isForced ? "any" : undefined,
    opening: isForced ? callOpening(format, forcedName, numCalls) : "",
  };
}

function grammarFunctions({ tools = [], toolPaths: { list, schema } = TOOL_PATHS }: ToolFields): GrammarFunction[] {
  return tools.map(({ function: { name, parameters, strict } }, index) => ({
    name,
    parameters: parameters ?? undefined,
    isStrict: strict === true,
    param: `${list}[${index}].${schema}`,
  }));
}
