/** Anthropic's messages. */
import { z } from "zod";
import type { AnthropicBatches } from "./anthropic-batches.js";
import {
  checked,
  type ProviderAsked,
  type ProviderServer,
  Refusal,
  type Reply,
  type Said,
  saidTo,
  startProviderServer,
} from "./provider-server.js";

const cache = z.strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).optional() }).nullish();
const text = z.strictObject({ type: z.literal("text"), text: z.string().min(1), cache_control: cache });
const image = z.strictObject({
  type: z.literal("image"),
  source: z.union([
    z.strictObject({
      type: z.literal("base64"),
      media_type: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
      data: z.string(),
    }),
    z.strictObject({ type: z.literal("url"), url: z.string() }),
  ]),
  cache_control: cache,
});
const id = z.string().regex(/^[a-zA-Z0-9_-]+$/);
const result = z.strictObject({
  type: z.literal("tool_result"),
  tool_use_id: id,
  content: z.union([z.string(), z.array(z.union([text, image]))]).optional(),
  is_error: z.boolean().optional(),
  cache_control: cache,
});
const thinking = z.strictObject({
  type: z.literal("thinking"),
  thinking: z.string(),
  signature: z.string().startsWith("EqoBCkgIARAB", "Invalid `signature` in `thinking` block"),
});
const use = z.strictObject({
  type: z.literal("tool_use"),
  id,
  name: z.string(),
  input: z.looseObject({}),
  cache_control: cache,
});
const message = z.discriminatedUnion("role", [
  z.strictObject({
    role: z.literal("user"),
    content: z.union([z.string().min(1), z.array(z.union([text, image, result])).min(1)]),
  }),
  z.strictObject({
    role: z.literal("assistant"),
    content: z.union([
      z.string().min(1),
      z
        .array(
          z.union([text, use, thinking, z.strictObject({ type: z.literal("redacted_thinking"), data: z.string() })]),
        )
        .min(1),
    ]),
  }),
]);
const tool = z.strictObject({
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  description: z.string().optional(),
  input_schema: z.looseObject({ type: z.literal("object") }),
  strict: z.boolean().optional(),
  cache_control: cache,
});
const one = { disable_parallel_tool_use: z.boolean().optional() };
export const messagesFields = {
  max_tokens: z.int().min(1),
  messages: z.array(message).min(1),
  system: z.union([z.string(), z.array(text)]).optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(0).optional(),
  stop_sequences: z.array(z.string().regex(/\S/)).optional(),
  metadata: z.strictObject({ user_id: z.string().nullish() }).optional(),
  tools: z.array(tool).optional(),
  tool_choice: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("auto"), ...one }),
      z.strictObject({ type: z.literal("any"), ...one }),
      z.strictObject({ type: z.literal("tool"), name: z.string(), ...one }),
      z.strictObject({ type: z.literal("none") }),
    ])
    .optional(),
  thinking: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("enabled"), budget_tokens: z.int().min(1024) }),
      z.strictObject({ type: z.literal("adaptive") }),
      z.strictObject({ type: z.literal("disabled") }),
    ])
    .optional(),
  output_config: z
    .strictObject({
      effort: z.enum(["low", "medium", "high", "xhigh", "max"]).optional(),
      format: z.strictObject({ type: z.literal("json_schema"), schema: z.looseObject({}) }).optional(),
    })
    .optional(),
};
const request = z.strictObject({ model: z.string(), ...messagesFields, stream: z.boolean().optional() });
const { system, messages, tools, tool_choice, thinking: thinks, output_config } = messagesFields;
const count = z.strictObject({
  model: z.string(),
  system,
  messages,
  tools,
  tool_choice,
  thinking: thinks,
  output_config,
});
type MessagesBody = Omit<z.output<typeof request>, "model">;

const anthropicError = (status: number, type: string, message: string, headers = {}): Reply => ({
  status,
  headers: { "request-id": "req_011CSH", ...headers },
  body: { type: "error", error: { type, message }, request_id: "req_011CSH" },
});
const invalid = (message: string) => new Refusal(anthropicError(400, "invalid_request_error", message));

const VERSIONS: readonly string[] = ["2023-06-01", "2026-10-21"];

interface AnthropicServerOptions {
  readonly keys: readonly string[];
  readonly headers?: (asked: ProviderAsked) => Readonly<Record<string, string>>;
  /** Message batches; absent: there are none. */
  readonly batches?: AnthropicBatches;
}

export function startAnthropicServer({
  keys,
  headers: more,
  batches,
}: AnthropicServerOptions): Promise<ProviderServer> {
  return startProviderServer((asked) => {
    const { url, headers, body } = asked;
    if (!keys.includes(headers["x-api-key"] as string) || headers.authorization !== undefined)
      throw new Refusal(anthropicError(401, "authentication_error", `invalid x-api-key: ${headers["x-api-key"]}`));
    if (!VERSIONS.includes(headers["anthropic-version"] as string))
      throw invalid("anthropic-version: header is required");
    if (url === "/v1/messages/count_tokens") {
      const counted = checked(count, body, (path, message) =>
        anthropicError(400, "invalid_request_error", `${path}: ${message}`),
      );
      checkMessages({ ...counted, max_tokens: 1 });
      return { body: { input_tokens: 14 } };
    }
    const ofBatches = batches?.reply(asked, (params) => {
      const line = checked(request, params, (path, message) =>
        anthropicError(400, "invalid_request_error", `${path}: ${message}`),
      );
      checkMessages(line);
      return wholeMessage(messagesSaid(line));
    });
    if (ofBatches !== undefined) return ofBatches;
    if (url !== "/v1/messages") throw new Refusal(anthropicError(404, "not_found_error", "Not Found"));
    const parsed = checked(request, body, (path, message) =>
      anthropicError(400, "invalid_request_error", `${path}: ${message}`),
    );
    checkMessages(parsed);
    const sent = { "request-id": "req_011CSH", "anthropic-organization-id": "org-secret", ...more?.(asked) };
    const said = messagesSaid(parsed);
    if (parsed.stream !== true) return { headers: sent, body: wholeMessage(said) };
    return {
      headers: { ...sent, "content-type": "text/event-stream; charset=utf-8" },
      body: messageEvents(said).map(sse),
    };
  });
}

const sse = (event: { readonly type: string }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export function messagesSaid({ messages, tools, thinking: config }: MessagesBody): Said {
  const { content } = messages.at(-1)!;
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  const lastText = blocks.map((block) => (block.type === "text" ? block.text : "")).join(" ");
  const said = saidTo(
    lastText,
    blocks.some(({ type }) => type === "tool_result"),
    tools?.[0]?.name,
  );
  return { ...said, thoughts: config?.type === "enabled" || config?.type === "adaptive" ? said.thoughts : [] };
}

export function checkMessages({
  messages,
  thinking: config,
  max_tokens,
  temperature,
  top_k,
  tool_choice,
  tools,
}: MessagesBody): void {
  if (messages[0]!.role !== "user") throw invalid('messages: first message must use the "user" role');
  if (config?.type === "enabled") {
    if (config.budget_tokens >= max_tokens)
      throw invalid("`max_tokens` must be greater than `thinking.budget_tokens`.");
    if ((temperature ?? 1) !== 1) throw invalid("`temperature` may only be set to 1 when thinking is enabled.");
    if (top_k !== undefined) throw invalid("`top_k` must be unset when thinking is enabled.");
    if (tool_choice?.type === "any" || tool_choice?.type === "tool")
      throw invalid("Thinking may not be enabled when tool_choice forces tool use.");
  }
  if (tool_choice !== undefined && (tools ?? []).length === 0) throw invalid("tool_choice: tools must be given");
  for (const [i, { role, content }] of messages.entries()) {
    const blocks = typeof content === "string" ? [] : content;
    const used = blocks.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
    const next = messages[i + 1];
    const results =
      typeof next?.content === "string" || next === undefined
        ? []
        : next.content.flatMap((block) => (block.type === "tool_result" ? [block.tool_use_id] : []));
    if (role === "assistant" && next !== undefined && used.some((each) => !results.includes(each))) {
      throw invalid(
        `messages.${i}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${used.join(", ")}.`,
      );
    }
    if (role === "user") {
      const firstOther = blocks.findIndex(({ type }) => type !== "tool_result");
      if (firstOther >= 0 && blocks.slice(firstOther).some(({ type }) => type === "tool_result"))
        throw invalid(`messages.${i}: tool_result blocks must come first`);
      const before = messages[i - 1]?.content;
      const known =
        before === undefined || typeof before === "string"
          ? []
          : before.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
      for (const block of blocks) {
        if (block.type === "tool_result" && !known.includes(block.tool_use_id))
          throw invalid(
            `messages.${i}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${block.tool_use_id}.`,
          );
      }
    }
    if (
      config?.type === "enabled" &&
      role === "assistant" &&
      used.length > 0 &&
      i === messages.length - 2 &&
      blocks[0]!.type !== "thinking"
    ) {
      throw invalid(
        `messages.${i}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${blocks[0]!.type}\`.`,
      );
    }
  }
}

const SIGNATURE = "EqoBCkgIARABGAIiQL2UoU0b1OHYi";
const START = {
  cache_creation_input_tokens: 4,
  cache_read_input_tokens: 8,
  input_tokens: 12,
  service_tier: "standard",
};
const HEAD = { id: "msg_01XFDUDYJgAACzvnptvVoYEL", type: "message", role: "assistant", model: "claude-opus-4-6" };

export function wholeMessage({ texts, thoughts, calls }: Said): object {
  const content = [
    ...(thoughts.length === 0 ? [] : [{ type: "thinking", thinking: thoughts.join(""), signature: SIGNATURE }]),
    ...(texts.length === 0 ? [] : [{ type: "text", text: texts.join("") }]),
    ...calls.map(({ id: callId, name, pieces }) => ({
      type: "tool_use",
      id: `toolu_${callId}`,
      name,
      input: JSON.parse(pieces.join("")),
    })),
  ];
  return {
    ...HEAD,
    content,
    stop_reason: calls.length > 0 ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: { ...START, output_tokens: 9 },
  };
}

export function messageEvents({ texts, thoughts, calls }: Said): { readonly type: string; [key: string]: unknown }[] {
  const events: { type: string; [key: string]: unknown }[] = [
    {
      type: "message_start",
      message: { ...HEAD, content: [], stop_reason: null, stop_sequence: null, usage: { ...START, output_tokens: 1 } },
    },
  ];
  let index = 0;
  const block = (content_block: object, deltas: readonly object[]) => {
    events.push({ type: "content_block_start", index, content_block });
    if (index === 0) events.push({ type: "ping" });
    for (const delta of deltas) events.push({ type: "content_block_delta", index, delta });
    events.push({ type: "content_block_stop", index: index++ });
  };
  if (thoughts.length > 0) {
    const deltas = thoughts.map((each) => ({ type: "thinking_delta", thinking: each }));
    block({ type: "thinking", thinking: "", signature: "" }, [
      ...deltas,
      { type: "signature_delta", signature: SIGNATURE },
    ]);
  }
  if (texts.length > 0)
    block(
      { type: "text", text: "" },
      texts.map((each) => ({ type: "text_delta", text: each })),
    );
  for (const { id: callId, name, pieces } of calls) {
    const deltas = ["", ...pieces].map((partial_json) => ({ type: "input_json_delta", partial_json }));
    block({ type: "tool_use", id: `toolu_${callId}`, name, input: {} }, deltas);
  }
  const delta = { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null };
  events.push({ type: "message_delta", delta, usage: { output_tokens: 9 } }, { type: "message_stop" });
  return events;
}
