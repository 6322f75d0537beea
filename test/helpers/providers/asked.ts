/** What a provider is asked for a client's request. */
import { bodyJson } from "../../../src/core/json-body.js";
import {
  type ClientRequest,
  type Provider,
  type ProviderEngine,
  providerRequest,
} from "../../../src/gateway/dialects/provider.js";

export const CHAT = "/v1/chat/completions";
export const MESSAGES = "/v1/messages";
export const RESPONSES = "/v1/responses";
/** The beginning of a PNG file. */
export const PNG = "iVBORw0KGgo=";
export const parameters = { type: "object", properties: { q: { type: "string" } } };

/** What Anthropic is asked for the same conversation in each of OpenAI's dialects. */
export const asMessages = {
  max_tokens: 100,
  system: [
    { type: "text", text: "Be brief." },
    { type: "text", text: "Be kind." },
  ],
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "What is this?" },
        { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "text", text: "I look." },
        { type: "tool_use", id: "call_1", name: "look", input: { q: "x" } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "call_1", content: [{ type: "text", text: "a cat" }] },
        { type: "text", text: "So?" },
      ],
    },
  ],
  tools: [{ name: "look", description: "Looks", input_schema: parameters }],
};

export function asked(
  engine: ProviderEngine,
  path: string,
  body: object,
  more: Partial<Provider> = {},
  model = "us.anthropic.claude:1",
) {
  const provider: Provider = {
    engine,
    basePath: "",
    maxTokensName: "max_completion_tokens",
    apiKey: "a-secret",
    aws: undefined,
    bedrockApi: "converse",
    apiVersion: undefined,
    thinking: "effort",
    responses: "pass",
    dropsParams: false,
    defaultMaxTokens: 4096,
    ...more,
  };
  const whole = { model: "m", ...body };
  const request: ClientRequest = { path, body: whole, bytes: Buffer.from(bodyJson(whole)), headers: {} };
  const made = providerRequest(provider, "https://host", model, request, new Date(0));
  return {
    path: made.path,
    headers: made.headers,
    body: JSON.parse(made.body.toString()) as Record<string, unknown>,
    dropped: made.translation.head().headers,
  };
}
