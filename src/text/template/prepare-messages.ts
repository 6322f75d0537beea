/** Gives a conversation's messages the form that a chat template needs. */
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { callsAsMetadata } from "./calls-as-metadata.js";
import type { NumberText } from "./jinja-values.js";
import { parseMarked } from "./number-marks.js";
import { oneCallEach } from "./one-call-each.js";

interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A message in OpenAI's form; fields that are not listed here reach the template unchanged. */
export interface ChatMessage {
  readonly role: string;
  readonly content?: string | null | readonly TextPart[];
  readonly tool_calls?: readonly unknown[];
  readonly reasoning_content?: string;
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** Differences between templates in the form of messages. */
export interface Needs {
  /** The template prints reasoning by the name `thinking`. */
  readonly hasThinking: boolean;
  /**
   * The template is Harmony's: it prints `thinking` too, but refuses it beside content if there are calls, and prints
   * one call of a message.
   */
  readonly isHarmony: boolean;
  /** The template takes calls as messages with metadata. */
  readonly takesMetadata: boolean;
  /** The template prints an assistant's calls. */
  readonly printsCalls: boolean;
  /** The template requires content as a list of parts. */
  readonly takesParts: boolean;
  /** The template also takes a text, and joins a user's parts in its own way, with tools and without. */
  readonly joinsParts: boolean;
  /** The template requires a call's arguments as text. */
  readonly takesArgumentText: boolean;
  /**
   * The template requires `none` as the content of messages with calls, or prints less for it than for an empty text,
   * which some print as a separate turn.
   */
  readonly takesNoContent: boolean;
  /** The template fails on `none` as content, which clients send back beside calls. */
  readonly refusesNoContent: boolean;
}

/** @param numbers gets the numbers of calls' arguments whose text JavaScript would change */
export function prepareMessages(
  messages: readonly ChatMessage[],
  needs: Needs,
  numbers: Map<string, NumberText>,
): readonly ChatMessage[] {
  const inTurns = needs.isHarmony ? oneCallEach : needs.takesMetadata ? callsAsMetadata : undefined;
  const turns = inTurns?.(messages) ?? messages;
  return turns.map((message) => prepareMessage(message, needs, numbers));
}

function prepareMessage(message: ChatMessage, needs: Needs, numbers: Map<string, NumberText>): ChatMessage {
  const { takesParts } = needs;
  const joinsParts = needs.joinsParts && message.role === "user";
  const prepared: Record<string, unknown> = { ...message };
  const { content } = message;
  if (Array.isArray(content)) {
    const texts = (content as readonly TextPart[]).map(textOfPart);
    // Clients' further members of a part, such as `cache_control`, stay out of the template.
    prepared.content = takesParts || joinsParts ? texts.map((text) => ({ type: "text", text })) : texts.join("\n");
  } else if (takesParts && typeof content === "string") {
    prepared.content = [{ type: "text", text: content }];
  }
  const hasCalls = Array.isArray(message.tool_calls) && message.tool_calls.length > 0;
  if (!hasCalls) delete prepared.tool_calls;
  if (needs.refusesNoContent && content === null) prepared.content = "";
  // An empty reasoning counts as absent, and leaves a call its content.
  if (needs.hasThinking && message.reasoning_content && prepared.thinking === undefined) {
    prepared.thinking = message.reasoning_content;
    if (hasCalls && needs.isHarmony) prepared.content = "";
  }
  if (hasCalls) {
    if (needs.takesNoContent && (content ?? "") === "") prepared.content = null;
    if (!needs.takesArgumentText) {
      prepared.tool_calls = message.tool_calls.map((call) => withParsedArguments(call, numbers));
    }
  }
  return prepared as unknown as ChatMessage;
}

function textOfPart(part: TextPart): string {
  if (part.type === "text" && typeof part.text === "string") return part.text;
  throw new MillraceError(
    "invalid_parameter",
    `expected message content parts of type "text", got ${JSON.stringify(part.type)}`,
    {
      param: "messages",
      hint: "This server takes text only.",
    },
  );
}

/** OpenAI sends a tool call's arguments as JSON text; templates expect the object, as transformers gives them. */
function withParsedArguments(call: unknown, numbers: Map<string, NumberText>): unknown {
  if (!isPlainObject(call) || !isPlainObject(call.function) || typeof call.function.arguments !== "string") return call;
  try {
    // Some clients send back an empty text for a call without arguments.
    const text = call.function.arguments || "{}";
    const parsed = parseMarked(text, numbers);
    return isPlainObject(parsed) ? { ...call, function: { ...call.function, arguments: parsed } } : call;
  } catch {
    // The client sends back a malformed call of the model; the template prints its text.
    return call;
  }
}
