/** Writes a request of Google's generateContent. The model and whether to stream are in the path. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import type {
  AssistantPart,
  CallPart,
  Conversation,
  Effort,
  ImagePart,
  ResultPart,
  TextPart,
  ToolChoice,
  UserPart,
} from "../conversation/conversation.js";
import { argumentsOf, assertUserFirst, budgetOf, effortOf, present, topKOf, type WriteTerms } from "./terms.js";

/** Google's own placeholder for the signature of a call that another model made, or that has lost it. */
const UNSIGNED = "skip_thought_signature_validator";
const MAX_STOPS = 5;

export function writeGemini(conversation: Conversation, terms: WriteTerms): JsonObject {
  const { losses, names } = terms;
  const { system, turns, tools, stop } = conversation;
  assertUserFirst(conversation, terms);
  if (!conversation.allowsParallelCalls && tools.length > 0) losses.lacks(names.parallelCalls);
  if (stop.length > MAX_STOPS) losses.lacks(names.stop, `at most ${MAX_STOPS} ${names.stop}`);
  if (conversation.user !== undefined) losses.ignores(names.user);
  if (turns.at(-1)?.role === "assistant")
    losses.lacks(names.messages, "a last message of the user (the answer's beginning cannot be given)");
  const callNames = new Map<string, string>();
  const contents = turns.map(({ role, parts }) => {
    if (role === "user") return { role, parts: parts.flatMap((part) => userPart(part, callNames, terms)) };
    for (const part of parts) if (part.kind === "call") callNames.set(part.id, part.name);
    return { role: "model", parts: modelParts(parts) };
  });
  const generationConfig = present({
    maxOutputTokens: conversation.maxTokens,
    temperature: conversation.temperature,
    topP: conversation.topP,
    topK: topKOf(conversation),
    stopSequences: stop.length === 0 ? undefined : stop.slice(0, MAX_STOPS),
    seed: conversation.seed,
    presencePenalty: conversation.presencePenalty,
    frequencyPenalty: conversation.frequencyPenalty,
    responseMimeType: conversation.format === undefined ? undefined : "application/json",
    responseJsonSchema: conversation.format?.schema,
    thinkingConfig: thinkingOf(conversation, terms),
  });
  return present({
    systemInstruction: system.length === 0 ? undefined : { parts: system.map(({ text }) => ({ text })) },
    contents,
    tools: tools.length === 0 ? undefined : [{ functionDeclarations: tools.map(toolOf) }],
    toolConfig: toolConfigOf(conversation.toolChoice, tools.length > 0),
    generationConfig: Object.keys(generationConfig).length === 0 ? undefined : generationConfig,
  });
}

const LEVELS: Readonly<Record<Effort, string>> = {
  minimal: "minimal",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
};

function thinkingOf({ reasoning, maxTokens }: Conversation, { thinking }: WriteTerms): object | undefined {
  if (reasoning === undefined) return undefined;
  if (reasoning.kind === "off") return thinking === "budget" ? { thinkingBudget: 0 } : { thinkingLevel: "minimal" };
  if (thinking === "budget") {
    const budget = budgetOf(reasoning, maxTokens ?? Number.MAX_SAFE_INTEGER);
    return budget === undefined ? { thinkingBudget: 0 } : { thinkingBudget: budget, includeThoughts: true };
  }
  const effort = effortOf(reasoning);
  return { ...(effort === undefined ? {} : { thinkingLevel: LEVELS[effort] }), includeThoughts: true };
}

function toolConfigOf(choice: ToolChoice | undefined, hasTools: boolean): object | undefined {
  if (choice === undefined || !hasTools) return undefined;
  const modes = { auto: "AUTO", none: "NONE", required: "ANY", tool: "ANY" } as const;
  const only = choice.kind === "tool" ? { allowedFunctionNames: [choice.name] } : {};
  return { functionCallingConfig: { mode: modes[choice.kind], ...only } };
}

function toolOf({ name, description, schema }: Conversation["tools"][number]): object {
  return present({ name, description, parametersJsonSchema: schema });
}

function userPart(part: UserPart, callNames: ReadonlyMap<string, string>, terms: WriteTerms): readonly object[] {
  if (part.kind === "text") return [{ text: part.text }];
  if (part.kind === "image") return [imagePart(part, terms)];
  const images = part.parts.filter((each): each is ImagePart => each.kind === "image");
  return [resultPart(part, callNames, terms), ...images.map((image) => imagePart(image, terms))];
}

function imagePart({ source }: ImagePart, { losses, names }: WriteTerms): object {
  if (source.url !== undefined) return losses.cannot(names.messages, "images in base64", "the address of one");
  return { inlineData: { mimeType: source.mediaType, data: source.base64 } };
}

function resultPart(
  { id, parts, isError }: ResultPart,
  callNames: ReadonlyMap<string, string>,
  { losses, names }: WriteTerms,
): object {
  const name = callNames.get(id);
  if (name === undefined)
    return losses.cannot(names.messages, "a result of a call in the conversation", JSON.stringify(id));
  const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
  return { functionResponse: { id, name, response: isError ? { error: text } : resultOf(text) } };
}

/** A result as an object, which Google requires. */
function resultOf(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isPlainObject(value)) return value;
  } catch {
    // Most results are not JSON.
  }
  return { result: text };
}

/** Only the first of several calls carries a signature. Google does not want thoughts back. */
function modelParts(parts: readonly AssistantPart[]): readonly object[] {
  let isFirst = true;
  return parts.flatMap((part: AssistantPart | TextPart): readonly object[] => {
    if (part.kind === "text") return [{ text: part.text }];
    if (part.kind !== "call") return [];
    const written = callPart(part, isFirst);
    isFirst = false;
    return [written];
  });
}

function callPart(call: CallPart, isFirst: boolean): object {
  const { id, name, signature } = call;
  const thoughtSignature = signature ?? (isFirst ? UNSIGNED : undefined);
  return present({ functionCall: { id, name, args: argumentsOf(call) }, thoughtSignature });
}
