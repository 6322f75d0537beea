/** Converts Anthropic's tool fields to OpenAI's, which the rest of the server uses. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { Asker, PromptContext } from "../http/context.js";
import { parseNested } from "../openai/fields.js";
import { objectField } from "../openai/schema-parts.js";
import {
  assertDistinctNames,
  flatToolPaths,
  longNameField,
  parametersField,
  type ToolFields,
} from "../openai/tool-fields.js";

/** Tools are checked by type later, so that the error can name one that only the provider can run. */
export const toolsField = z.array(objectField).max(128);
const typeOfTool = z.object({ type: z.string().nullish() });

const toolSchema = z.strictObject({
  type: z.literal("custom").nullish(),
  name: longNameField,
  description: z.string().nullish(),
  input_schema: parametersField,
  // Accepted and ignored, because templates cannot show examples.
  input_examples: z.array(z.unknown()).nullish(),
  strict: z.boolean().nullish(),
  eager_input_streaming: z.boolean().nullish(),
  defer_loading: z.literal(false).nullish(),
  allowed_callers: z.array(z.literal("direct")).nullish(),
  cache_control: z.unknown().optional(),
});

const isSingleField = { disable_parallel_tool_use: z.boolean().nullish() };

export const toolChoiceField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("auto"), ...isSingleField }),
  z.strictObject({ type: z.literal("any"), ...isSingleField }),
  z.strictObject({ type: z.literal("tool"), name: z.string(), ...isSingleField }),
  z.strictObject({ type: z.literal("none") }),
]);

type ToolChoice = z.output<typeof toolChoiceField>;

function choiceOf(choice: ToolChoice): ToolFields["tool_choice"] {
  if (choice.type === "tool") return { type: "function", function: { name: choice.name } };
  return choice.type === "any" ? "required" : choice.type;
}

export function readTools(
  c: Asker,
  context: PromptContext,
  fields: {
    readonly tools?: z.output<typeof toolsField> | undefined;
    readonly tool_choice?: ToolChoice | undefined;
  },
): ToolFields {
  const { tools = [], tool_choice: choice } = fields;
  const read = tools.map((tool, index) => {
    const { type } = parseNested(c, context, typeOfTool, tool, ["tools", index]);
    if (type != null && type !== "custom") {
      const param = `tools[${index}].type`;
      const got = JSON.stringify(type.slice(0, 40));
      throw new MillraceError("unsupported_field", `${param}: expected "custom", got ${got}`, {
        param,
        hint: "this server runs no tools itself",
      });
    }
    return parseNested(c, context, toolSchema, tool, ["tools", index]);
  });
  assertDistinctNames(read, (index) => `tools[${index}].name`);
  const isSingle = choice !== undefined && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use;
  return {
    tools: read.map(({ name, description, input_schema, strict }) => ({
      type: "function",
      function: { name, description, parameters: input_schema, strict },
    })),
    toolPaths: flatToolPaths("input_schema"),
    ...(choice === undefined ? {} : { tool_choice: choiceOf(choice) }),
    parallel_tool_calls: isSingle !== true,
  };
}
