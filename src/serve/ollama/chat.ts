/** POST /api/chat. */
import { z } from "zod";
import { plainToolName, plainTools, withGivenNames } from "../../core/ollama-tools.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import type { PlainMessage, PlainToolCall } from "../openai/chat-messages.js";
import { planChat } from "../openai/chat-plan.js";
import { ANSWER_ROOM, planWithinContext } from "../openai/cut-conversation.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { objectField } from "../openai/schema-parts.js";
import { toolsField } from "../openai/tool-fields.js";
import { sayUnenforced } from "../openai/unenforced.js";
import { answer, answerLoaded } from "./answer.js";
import { assertNoImages, formOf, generationShape, maxTokensOf, thinkingFields } from "./fields.js";
import type { LineShape } from "./frames.js";

const toolCallsField = z.array(
  z.object({ id: z.string().nullish(), function: z.object({ name: z.string(), arguments: objectField }) }),
);

/** Other fields are dropped, since clients send back answers with all their fields. */
const messageSchema = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  thinking: z.string().nullish(),
  images: z.unknown().optional(),
  tool_calls: toolCallsField.nullish(),
  tool_name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
});

type MessageField = z.output<typeof messageSchema>;

const schema = z.strictObject({
  ...generationShape,
  messages: z.array(messageSchema).optional(),
  tools: toolsField.optional(),
  truncate: z.boolean().optional(),
});

export const CHAT_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(),
  ignoresUnknown: true,
  unsupported: {},
};

/**
 * A result without the id of an open call, as clients of earlier releases send it, belongs to the oldest open call, of
 * the result's name if it has one.
 */
function plainMessages(messages: readonly MessageField[]): readonly PlainMessage[] {
  const open: PlainToolCall[] = [];
  let numCalls = 0;
  return messages.map((message, index) => {
    const {
      role,
      content,
      thinking,
      images,
      tool_calls: calls,
      tool_name: toolName,
      tool_call_id: callId,
      name,
    } = message;
    assertNoImages(images, `messages[${index}].images`);
    const plain = { role, content: content ?? "", ...(thinking == null ? {} : { reasoning_content: thinking }) };
    if (role === "tool") {
      const given = toolName ?? name ?? undefined;
      const wanted = given === undefined ? undefined : plainToolName(given);
      const byId = open.findIndex(({ id }) => id === callId);
      const isNext = (call: PlainToolCall) => wanted === undefined || call.function.name === wanted;
      const found = byId < 0 ? open.findIndex(isNext) : byId;
      const [call] = found < 0 ? [] : open.splice(found, 1);
      return { ...plain, tool_call_id: call?.id ?? "call_0", ...(wanted === undefined ? {} : { name: wanted }) };
    }
    if (calls == null || calls.length === 0) return plain;
    const plainCalls = calls.map(({ id: givenId, function: { name: called, arguments: given } }): PlainToolCall => {
      const id = givenId || `call_${numCalls++}`;
      return { id, type: "function", function: { name: plainToolName(called), arguments: JSON.stringify(given) } };
    });
    for (const call of plainCalls) open.push(call);
    return { ...plain, tool_calls: plainCalls };
  });
}

/** @param tools in the client's form */
function shapeFor(tools: unknown): LineShape {
  const named = withGivenNames(tools);
  return ({ content, thinking, calls }) => ({
    message: {
      role: "assistant",
      content,
      ...(thinking === "" ? {} : { thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: named(calls) }),
    },
  });
}

export async function chat(c: AppContext, context: ServeContext): Promise<Response> {
  const body = await readJsonObject(c, context.limits);
  const request = parseFields(c, context, CHAT_RULES, { ...body, tools: plainTools(body.tools) });
  const shape = shapeFor(body.tools);
  const options = { model: request.model ?? resolveModelName(context, undefined), shape, promptField: "messages" };
  resolveModelName(context, request.model);
  if (request.messages === undefined || request.messages.length === 0)
    return answerLoaded(c, context, request, options);
  const form = formOf(request);
  const fields = { ...thinkingFields(request, context), tools: request.tools };
  const messages = plainMessages(request.messages);
  const planOf = (kept: typeof messages) => planChat(context, kept, fields, form);
  // A large num_predict does not drop turns: the answer ends at the context's end.
  const room = Math.min(maxTokensOf(request) ?? ANSWER_ROOM, ANSWER_ROOM);
  const { plan, isCut } =
    request.truncate === false
      ? { plan: await planOf(messages), isCut: false }
      : await planWithinContext(context, messages, planOf, room);
  sayUnenforced(c, form, isCut ? ["messages"] : []);
  return answer(c, context, request, plan, options);
}
