/** The parts that OpenAI's chats and responses share, under fields of different names. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import type { Conversation, Effort, Extra, ImagePart, Reasoning, ToolChoice } from "../conversation/conversation.js";
import { Fields, invalid } from "../conversation/fields.js";
import type { Losses } from "../conversation/losses.js";

/** The fields of sampling. Responses have only the first two at OpenAI, and all of them at servers like ours. */
export function samplingOf(fields: Fields) {
  return {
    temperature: fields.number("temperature", 0, 2),
    topP: fields.number("top_p", 0, 1),
    topK: fields.integer("top_k", -1),
    stop: stopOf(fields),
    seed: fields.integer("seed", Number.MIN_SAFE_INTEGER),
    presencePenalty: fields.number("presence_penalty", -2, 2),
    frequencyPenalty: fields.number("frequency_penalty", -2, 2),
  } satisfies Partial<Conversation>;
}

function stopOf(fields: Fields): readonly string[] {
  const stop = fields.take("stop");
  const list = stop === undefined ? [] : Array.isArray(stop) ? stop : [stop];
  for (const each of list) if (typeof each !== "string") throw invalid("stop", "text or a list of texts", each);
  return list.filter((each) => each !== "");
}

/** How to treat fields that were not read. */
interface Beside {
  /** Fields on which the answer does not depend, or not by intent. */
  readonly hints: readonly string[];
  /** Values that mean the same as leaving the field out. */
  readonly idle: Readonly<Record<string, (value: unknown) => boolean>>;
}

export function extrasOf(fields: Fields, body: JsonObject, { hints, idle }: Beside): readonly Extra[] {
  return (
    fields
      .unread()
      // A client may give a field the name of an inherited member.
      .filter((param) => !Object.hasOwn(idle, param) || !idle[param]!(body[param]))
      .map((param) => ({ param, isHint: hints.includes(param) }))
  );
}

const DATA_URL = /^data:(image\/[\w.+-]+);base64,/;

export function imageSource(url: string, param: string): ImagePart["source"] {
  if (!url.startsWith("data:")) return { url };
  const mediaType = DATA_URL.exec(url)?.[1];
  if (mediaType === undefined) throw invalid(param, "a data URL of an image in base64", url);
  return { mediaType, base64: url.slice(url.indexOf(",") + 1) };
}

/** Both vendors call for an object at the root; OpenAI lets a tool without arguments leave it out. */
export function objectSchema(schema: JsonObject | undefined, param: string): JsonObject {
  if (schema === undefined || Object.keys(schema).length === 0) return { type: "object", properties: {} };
  if (schema.type !== undefined && schema.type !== "object") throw invalid(`${param}.type`, '"object"', schema.type);
  return schema.type === undefined ? { type: "object", ...schema } : schema;
}

/** @param nameOf reads the name of the function that must be called */
export function toolChoiceOf(
  fields: Fields,
  losses: Losses,
  nameOf: (chosen: Fields) => string | undefined,
): ToolChoice | undefined {
  const choice = fields.take("tool_choice");
  if (choice === undefined) return undefined;
  if (choice === "auto" || choice === "none" || choice === "required") return { kind: choice };
  if (!isPlainObject(choice)) throw invalid("tool_choice", "none, auto, required or a function", choice);
  const name = nameOf(new Fields(choice, "tool_choice"));
  if (choice.type === "function" && name !== undefined) return { kind: "tool", name };
  losses.lacks("tool_choice", "none, auto, required or one function as tool_choice");
  return undefined;
}

export function reasoningOf(effort: Effort | "none" | undefined): Reasoning | undefined {
  if (effort === undefined) return undefined;
  return effort === "none" ? { kind: "off" } : { kind: "on", effort };
}
