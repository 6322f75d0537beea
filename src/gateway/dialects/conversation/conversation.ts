/**
 * A request for one answer, in terms that all providers share: readers make it from clients' dialects, and writers make
 * providers' requests from it. Each writer decides what its provider lacks; parts that no writer knows do not get here.
 */
import type { JsonObject } from "../../../core/json-body.js";

export interface TextPart {
  readonly kind: "text";
  readonly text: string;
  /** The client marks the prompt up to here for the provider's cache. */
  readonly isCached?: boolean;
}

export interface ImagePart {
  readonly kind: "image";
  /** Base64 with its media type, or an address, which the gateway never fetches. */
  readonly source:
    | { readonly mediaType: string; readonly base64: string; readonly url?: undefined }
    | { readonly url: string };
  readonly isCached?: boolean;
}

export interface CallPart {
  readonly kind: "call";
  readonly id: string;
  readonly name: string;
  /** The arguments as the client wrote them, possibly invalid JSON: models write anything. "": none. */
  readonly json: string;
  /** The client's name for the arguments. */
  readonly param: string;
  /** A provider's proof that the model made this call, which it wants back with the call. */
  readonly signature?: string | undefined;
}

export interface ResultPart {
  readonly kind: "result";
  readonly id: string;
  readonly parts: readonly (TextPart | ImagePart)[];
  readonly isError: boolean;
  readonly isCached?: boolean;
}

export interface ThoughtPart {
  readonly kind: "thought";
  readonly text: string;
  readonly signature: string;
}

/** Thoughts that the provider has encrypted. */
interface HiddenThoughtPart {
  readonly kind: "hidden-thought";
  readonly data: string;
}

export type UserPart = TextPart | ImagePart | ResultPart;
export type AssistantPart = TextPart | CallPart | ThoughtPart | HiddenThoughtPart;

/** Turns alternate, and each has a part. */
export type Turn =
  | { readonly role: "user"; readonly parts: readonly UserPart[] }
  | { readonly role: "assistant"; readonly parts: readonly AssistantPart[] };

export interface Tool {
  readonly name: string;
  readonly description: string | undefined;
  /** JSON Schema of the arguments, of type object. */
  readonly schema: JsonObject;
  readonly isStrict: boolean;
  readonly isCached?: boolean;
}

export type ToolChoice =
  | { readonly kind: "auto" | "none" | "required" }
  | { readonly kind: "tool"; readonly name: string };

export const EFFORTS = ["minimal", "low", "medium", "high", "xhigh"] as const;
export type Effort = (typeof EFFORTS)[number];

/**
 * off: the model does not think before it answers. Without an effort or a budget the provider decides how much it
 * thinks.
 */
export type Reasoning =
  | { readonly kind: "off" }
  | { readonly kind: "on"; readonly effort?: Effort | undefined; readonly budgetTokens?: number | undefined };

/** A part of a request that only some providers have. */
export interface Extra {
  /** The request's field, in the client's words. */
  readonly param: string;
  /** The answer is the same without it. */
  readonly isHint: boolean;
}

export interface Conversation {
  readonly system: readonly TextPart[];
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice | undefined;
  /** False: at most one call per answer. */
  readonly allowsParallelCalls: boolean;
  readonly maxTokens: number | undefined;
  /** 0 to 2. */
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly topK: number | undefined;
  readonly stop: readonly string[];
  readonly seed: number | undefined;
  readonly presencePenalty: number | undefined;
  readonly frequencyPenalty: number | undefined;
  readonly format: { readonly name: string; readonly schema: JsonObject | undefined } | undefined;
  readonly reasoning: Reasoning | undefined;
  /** The client's own name for its user. */
  readonly user: string | undefined;
  readonly isStream: boolean;
}

/** The client's name for a field, by its meaning: errors and lists of dropped fields use it. */
export type FieldNames = Readonly<
  Record<"messages" | "maxTokens" | "format" | "reasoning" | "toolChoice" | "parallelCalls" | "stop" | "user", string>
>;
