/**
 * The form of a conversation of the app. An upload is untrusted: it must fit the form, and only fields of the form are
 * kept.
 */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { firstProblem } from "../../core/schema-problem.js";

const MAX_TURNS = 4000;
const MAX_PARTS = 256;
const MAX_SHOWN = 80;

/** A conversation's own id, which the page chooses. */
const CONVERSATION_ID = /^[\w-]{1,64}$/;

const name = z.string().max(512);
/** Bounded by the size of the whole conversation. */
const text = z.string();

/** Milliseconds. */
const time = z.number().min(0);

/** A picture as the page shows it: data alone, since a reader's browser would fetch an address. */
const picture = z.string().regex(/^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/);

const turn = z.strictObject({
  role: z.enum(["user", "assistant"]),
  content: text,
  reasoning: text.optional(),
  files: z
    .array(z.strictObject({ name, text, image: picture.optional() }))
    .max(MAX_PARTS)
    .optional(),
  toolCalls: z
    .array(z.strictObject({ name, arguments: text }))
    .max(MAX_PARTS)
    .optional(),
  isDropped: z.boolean().optional(),
  /** Why the answer is not whole, so that it can be continued later. */
  trouble: z.enum(["cut", "full", "broken", "stopped", "too-long", "failed"]).optional(),
  error: text.optional(),
  /** Dollars. */
  cost: z.number().min(0).optional(),
  feedback: z
    .strictObject({
      requestId: name,
      rating: z.enum(["up", "down"]).optional(),
      correction: text.optional(),
      cacheId: name.optional(),
      isWrong: z.boolean().optional(),
    })
    .optional(),
  speed: z.strictObject({ numTokens: z.number().int().min(0), firstMs: time, restMs: time }).optional(),
});

const settings = z.strictObject({
  system: text,
  temperature: name,
  topP: name,
  seed: name,
  maxTokens: name,
  topK: name.optional(),
  minP: name.optional(),
  frequencyPenalty: name.optional(),
  presencePenalty: name.optional(),
  repetitionPenalty: name.optional(),
  stop: text.optional(),
  format: z.enum(["text", "json", "schema"]),
  schema: text,
  showsTokens: z.boolean(),
});

const conversation = z.strictObject({
  title: name,
  /** Whether the visitor chose the title. */
  isNamed: z.boolean().optional(),
  updatedMs: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
  settings,
  panes: z
    .array(z.strictObject({ model: name, turns: z.array(turn).max(MAX_TURNS) }))
    .min(1)
    .max(2),
});

const upload = z.strictObject({
  /** Revision of the conversation as the page knows it; 0: a new conversation. */
  revision: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
  conversation,
});

export type KeptConversation = z.output<typeof conversation>;

/** Throws invalid_parameter, which names the first field that does not fit. */
export function readUpload(body: unknown): z.output<typeof upload> {
  const parsed = upload.safeParse(body);
  if (parsed.success) return parsed.data;
  const { param: path, reason } = firstProblem(parsed.error, body);
  const param = path === "" ? "body" : path;
  throw new MillraceError("invalid_parameter", `${param}: ${reason}`, {
    param,
    hint: 'a body is {"revision": 0 or the last one, "conversation": {"title", "updatedMs", "settings", "panes"}}',
  });
}

/** Throws not_found for an id that no conversation can have. */
export function assertConversationId(id: string): void {
  if (!CONVERSATION_ID.test(id)) throw noSuchConversation(id);
}

export function noSuchConversation(id: string): MillraceError {
  return new MillraceError(
    "not_found",
    `expected the id of a kept conversation of this key, got ${JSON.stringify(id.slice(0, MAX_SHOWN))}`,
    { hint: "GET /v1/chats lists them; an id has at most 64 letters, digits, _ and -" },
  );
}
