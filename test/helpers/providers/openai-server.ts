/** OpenAI's chat completions, and Azure's of the same. */
import { z } from "zod";
import type { OpenaiBatches } from "./openai-batches.js";
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

const text = z.strictObject({ type: z.literal("text"), text: z.string() });
const image = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({
    url: z.string().regex(/^(https?:|data:image\/(png|jpeg|gif|webp);base64,)/),
    detail: z.string().optional(),
  }),
});
const call = z.strictObject({
  id: z.string().max(40),
  type: z.literal("function"),
  function: z.strictObject({ name: z.string(), arguments: z.string(), parsed_arguments: z.unknown().optional() }),
});
const message = z.discriminatedUnion("role", [
  z.strictObject({
    role: z.enum(["system", "developer"]),
    content: z.union([z.string(), z.array(text).min(1)]),
    name: z.string().optional(),
  }),
  z.strictObject({
    role: z.literal("user"),
    content: z.union([z.string(), z.array(z.union([text, image])).min(1)]),
    name: z.string().optional(),
  }),
  z.strictObject({
    role: z.literal("assistant"),
    content: z.union([z.string(), z.array(text).min(1)]).nullish(),
    refusal: z.string().nullish(),
    // What clients repeat of an answer is ignored.
    annotations: z.unknown().optional(),
    parsed: z.unknown().optional(),
    audio: z.unknown().optional(),
    reasoning_content: z.unknown().optional(),
    name: z.string().optional(),
    tool_calls: z.array(call).min(1).optional(),
  }),
  z.strictObject({
    role: z.literal("tool"),
    tool_call_id: z.string().max(40),
    content: z.union([z.string(), z.array(text).min(1)]),
  }),
]);
const tool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
    description: z.string().optional(),
    parameters: z.looseObject({ type: z.literal("object") }).optional(),
    strict: z.boolean().nullish(),
  }),
});
const request = z.strictObject({
  model: z.string(),
  messages: z.array(message).min(1),
  max_tokens: z.int().min(1).nullish(),
  max_completion_tokens: z.int().min(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  n: z.int().min(1).max(128).nullish(),
  stop: z.union([z.string(), z.array(z.string()).min(1).max(4)]).nullish(),
  seed: z.int().nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  logprobs: z.boolean().nullish(),
  reasoning_effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh"]).nullish(),
  response_format: z
    .union([
      z.strictObject({ type: z.enum(["text", "json_object"]) }),
      z.strictObject({
        type: z.literal("json_schema"),
        json_schema: z.strictObject({
          name: z.string().regex(/^[\w-]{1,64}$/),
          schema: z.looseObject({}),
          strict: z.boolean().optional(),
          description: z.string().optional(),
        }),
      }),
    ])
    .optional(),
  tools: z.array(tool).min(1).max(128).optional(),
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: z.string() }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  user: z.string().optional(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: z.boolean().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean().optional() }).nullish(),
});

const refusal = (
  status: number,
  message: string,
  param: string | null,
  code: string | null,
  type = "invalid_request_error",
): Reply => ({
  status,
  body: { error: { message, type, param, code } },
});

interface OpenaiServerOptions {
  readonly keys: readonly string[];
  /** Version of Azure's API that is known; absent: it is OpenAI itself. */
  readonly azureVersion?: string;
  /** Headers of every answer. */
  readonly headers?: (asked: ProviderAsked) => Readonly<Record<string, string>>;
  /** A compatible host with reasoning_content. */
  readonly showsReasoning?: boolean;
  /** Files and batches; absent: there are none. */
  readonly batches?: OpenaiBatches;
}

export function startOpenaiServer(options: OpenaiServerOptions): Promise<ProviderServer> {
  return startProviderServer((asked) => {
    authorize(asked, options);
    const ofBatches = options.batches?.reply(asked, (body) => chatReply({ ...asked, ...body }, options));
    if (ofBatches !== undefined) return ofBatches;
    return chatReply(asked, options);
  });
}

function chatReply(asked: ProviderAsked, options: OpenaiServerOptions): Reply {
  const body = bodyOf(asked, options);
  const headers = {
    "x-request-id": "req_0f1e2d3c",
    "openai-organization": "org-secret",
    ...options.headers?.(asked),
  };
  const said = saidTo(lastText(body.messages), body.messages.at(-1)!.role === "tool", body.tools?.[0]?.function.name);
  const isStream = body.stream === true;
  if (!isStream) return { headers, body: whole(said, options) };
  return {
    headers: { ...headers, "content-type": "text/event-stream; charset=utf-8" },
    body: stream(said, body.stream_options?.include_usage === true, options),
  };
}

function authorize({ headers }: ProviderAsked, { keys, azureVersion }: OpenaiServerOptions): void {
  const key =
    azureVersion === undefined
      ? /^Bearer (.*)$/.exec(headers.authorization ?? "")?.[1]
      : (headers["api-key"] as string);
  if (key !== undefined && keys.includes(key)) return;
  const shown = `${key?.slice(0, 8)}********${key?.slice(-4)}`;
  throw new Refusal(
    refusal(
      401,
      `Incorrect API key provided: ${shown}. You can find your API key at https://platform.openai.com/account/api-keys.`,
      null,
      "invalid_api_key",
    ),
  );
}

function bodyOf({ url, body }: ProviderAsked, { azureVersion }: OpenaiServerOptions): z.output<typeof request> {
  if (azureVersion === undefined) {
    if (url !== "/v1/chat/completions") throw new Refusal(refusal(404, `Invalid URL (POST ${url})`, null, null));
  } else {
    const match = /^\/openai\/deployments\/([\w.-]+)\/chat\/completions\?api-version=([\w-]+)$/.exec(url);
    if (match === null || match[2] !== azureVersion)
      throw new Refusal({ status: 404, body: { error: { code: "404", message: "Resource not found" } } });
    if (match[1] !== "gpt-deployed")
      throw new Refusal({
        status: 404,
        body: {
          error: { code: "DeploymentNotFound", message: "The API deployment for this resource does not exist." },
        },
      });
  }
  const parsed = checked(request, body, (path, message) => refusal(400, `${message} (${path})`, path, null));
  if (parsed.stream_options != null && parsed.stream !== true)
    throw new Refusal(
      refusal(400, "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options", null),
    );
  if (parsed.parallel_tool_calls !== undefined && parsed.tools === undefined)
    throw new Refusal(
      refusal(400, "'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls", null),
    );
  if (parsed.tool_choice !== undefined && parsed.tools === undefined)
    throw new Refusal(refusal(400, "'tool_choice' is only allowed when 'tools' are specified.", "tool_choice", null));
  checkOrder(parsed.messages);
  return parsed;
}

/** Every call is answered by a tool message, right after it. */
function checkOrder(messages: z.output<typeof request>["messages"]): void {
  let open = new Set<string>();
  for (const [i, each] of messages.entries()) {
    if (each.role === "tool") {
      if (!open.delete(each.tool_call_id))
        throw new Refusal(
          refusal(
            400,
            "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
            `messages.[${i}].role`,
            null,
          ),
        );
      continue;
    }
    if (open.size > 0)
      throw new Refusal(
        refusal(
          400,
          "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
          `messages.[${i}].role`,
          null,
        ),
      );
    if (each.role === "assistant") open = new Set(each.tool_calls?.map(({ id }) => id));
  }
}

function lastText(messages: z.output<typeof request>["messages"]): string {
  const { content } = messages.findLast(({ role }) => role === "user") ?? { content: "" };
  if (typeof content === "string") return content;
  return content?.map((part) => (part.type === "text" ? part.text : "")).join(" ") ?? "";
}

const USAGE = {
  prompt_tokens: 20,
  completion_tokens: 9,
  total_tokens: 29,
  prompt_tokens_details: { cached_tokens: 8, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: 2,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
};
const HEAD = {
  id: "chatcmpl-C3k9",
  created: 1_790_000_000,
  model: "gpt-5.2-2025-12-11",
  service_tier: "default",
  system_fingerprint: "fp_44709d6fcb",
};

function whole({ texts, thoughts, calls }: Said, { showsReasoning }: OpenaiServerOptions): object {
  const tool_calls = calls.map(({ id, name, pieces }) => ({
    id,
    type: "function",
    function: { name, arguments: pieces.join("") },
  }));
  const message = {
    role: "assistant",
    content: texts.length === 0 ? null : texts.join(""),
    ...(tool_calls.length === 0 ? {} : { tool_calls }),
    ...(showsReasoning === true && thoughts.length > 0 ? { reasoning_content: thoughts.join("") } : {}),
    refusal: null,
    annotations: [],
  };
  const finish_reason = calls.length > 0 ? "tool_calls" : "stop";
  return {
    ...HEAD,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: null, finish_reason }],
    usage: USAGE,
  };
}

function stream(
  { texts, thoughts, calls }: Said,
  includesUsage: boolean,
  { showsReasoning }: OpenaiServerOptions,
): string[] {
  const chunk = (choices: object[], usage?: object | null) =>
    `data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices, ...(includesUsage ? { usage: usage ?? null } : {}), obfuscation: "kZ1" })}\n\n`;
  const delta = (fields: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta: fields, logprobs: null, finish_reason }]);
  return [
    delta({ role: "assistant", content: "", refusal: null }),
    ...(showsReasoning === true ? thoughts.map((reasoning_content) => delta({ reasoning_content })) : []),
    ...texts.map((content) => delta({ content })),
    ...calls.flatMap(({ id, name, pieces }, index) => [
      delta({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
      ...pieces.map((piece) => delta({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
    delta({}, calls.length > 0 ? "tool_calls" : "stop"),
    ...(includesUsage ? [chunk([], USAGE)] : []),
    "data: [DONE]\n\n",
  ];
}
