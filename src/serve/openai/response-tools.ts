/**
 * Converts the tool fields of /v1/responses, whose tools hold functions without nesting, to the form of chat
 * completions. Tools that OpenAI itself runs, and tools of other forms, are left out, so that agents such as Codex,
 * which
 * always offer some, can use their functions.
 */
import { z } from "zod";
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import type { Asker, PromptContext } from "../http/context.js";
import { parseNested } from "./fields.js";
import { objectField } from "./schema-parts.js";
import { assertDistinctNames, flatToolPaths, nameField, parametersField, type ToolFields } from "./tool-fields.js";

/** Tools are checked by type later, so that the error can name one that only the provider can run. */
export const flatToolsField = z.array(objectField).max(128);
const typeOfTool = z.object({ type: z.string() });

/** Types of tools without an equivalent function. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "apply_patch",
  "code_interpreter",
  "computer",
  "computer_use_preview",
  "custom",
  "file_search",
  "image_generation",
  "local_shell",
  "mcp",
  "namespace",
  "shell",
  "tool_search",
  "web_search",
  "web_search_preview",
]);

/** The types of a request's omitted tools, each once. */
export function leftOutTools(tools: z.output<typeof flatToolsField> = []): readonly string[] {
  return [...new Set(tools.map((tool) => ("type" in tool ? String(tool.type) : "")))].filter((type) =>
    LEFT_OUT.has(type),
  );
}

const flatTool = z.strictObject({
  type: z.literal("function"),
  name: nameField,
  description: z.string().nullish(),
  parameters: parametersField.nullish(),
  strict: z.boolean().nullish(),
  defer_loading: z.literal(false).nullish(),
});

const namedChoice = z.strictObject({ type: z.literal("function"), name: nameField });

export const flatChoiceField = z.union([
  z.enum(["none", "auto", "required"]),
  namedChoice,
  z.strictObject({
    type: z.literal("allowed_tools"),
    mode: z.enum(["auto", "required"]),
    tools: z.array(namedChoice).min(1),
  }),
]);

function nestedChoice(choice: z.output<typeof flatChoiceField> | undefined): ToolFields["tool_choice"] {
  if (typeof choice !== "object") return choice;
  const nested = ({ name }: { readonly name: string }) => ({ type: "function" as const, function: { name } });
  if (choice.type === "function") return nested(choice);
  return { type: "allowed_tools", allowed_tools: { mode: choice.mode, tools: choice.tools.map(nested) } };
}

interface FlatToolFields {
  readonly tools?: z.output<typeof flatToolsField> | undefined;
  readonly tool_choice?: z.output<typeof flatChoiceField> | undefined;
  readonly parallel_tool_calls?: boolean | undefined;
}

export function readFlatTools(c: Asker, context: PromptContext, fields: FlatToolFields): ToolFields {
  const { tools = [], tool_choice: choice } = fields;
  const read = tools.flatMap((tool, index) => {
    const { type } = parseNested(c, context, typeOfTool, tool, ["tools", index]);
    if (LEFT_OUT.has(type)) return [];
    if (type !== "function") {
      const param = `tools[${index}].type`;
      throw new MillraceError("unsupported_field", `${param}: expected "function", got ${describeValue(type)}`, {
        param,
        hint: "this server runs no tools itself",
      });
    }
    return [parseNested(c, context, flatTool, tool, ["tools", index])];
  });
  assertDistinctNames(read, (index) => `tools[${index}].name`);
  return {
    tools: read.map(({ name, description, parameters, strict }) => ({
      type: "function",
      function: { name, description, parameters, strict },
    })),
    toolPaths: flatToolPaths("parameters"),
    tool_choice: nestedChoice(choice),
    parallel_tool_calls: fields.parallel_tool_calls,
  };
}
