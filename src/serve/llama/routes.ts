/** The paths of llama-server's API that OpenAI's API lacks. */
import { api, type Route } from "../http/route.js";
import { CHAT_RULES, chatCompletions, chatInputTokens } from "../openai/chat-completions.js";
import { listModels } from "../openai/models.js";
import { LLAMA_COMPLETION_RULES, llamaCompletion } from "./completion.js";
import { LLAMA_EMBEDDING_RULES, llamaEmbedding } from "./embedding.js";
import { INFILL_RULES, infill } from "./infill.js";
import { applyTemplate, props, slots, TEMPLATE_RULES } from "./props.js";

export const LLAMA_ROUTES: readonly Route[] = [
  // llama-server's clients have an address without /v1.
  {
    method: "POST",
    path: "/chat/completions",
    handler: chatCompletions,
    ...api,
    task: "generate",
    summary: "An answer to a chat",
    rules: CHAT_RULES,
  },
  ...["/chat/completions/input_tokens", "/v1/chat/completions/input_tokens"].map((path) => ({
    method: "POST" as const,
    path,
    handler: chatInputTokens,
    ...api,
    summary: "How many tokens a chat's prompt has",
    rules: CHAT_RULES,
  })),
  { method: "GET", path: "/models", handler: listModels, ...api, summary: "The served names" },
  ...["/completion", "/completions"].map((path) => ({
    method: "POST" as const,
    path,
    handler: llamaCompletion,
    ...api,
    task: "generate" as const,
    summary: "A text that goes on from a prompt, by llama-server's API",
    rules: LLAMA_COMPLETION_RULES,
    idField: "prompt",
  })),
  ...["/embedding", "/embeddings"].map((path) => ({
    method: "POST" as const,
    path,
    handler: llamaEmbedding,
    ...api,
    task: "embed" as const,
    summary: "A vector for each input, by llama-server's API",
    rules: LLAMA_EMBEDDING_RULES,
    idField: "input",
  })),
  {
    method: "POST",
    path: "/infill",
    handler: infill,
    ...api,
    task: "generate",
    summary: "What stands between two texts, by llama-server's API",
    rules: INFILL_RULES,
  },
  {
    method: "POST",
    path: "/apply-template",
    handler: applyTemplate,
    ...api,
    summary: "A chat as the model reads it, by llama-server's API",
    rules: TEMPLATE_RULES,
  },
  { method: "GET", path: "/props", handler: props, ...api, summary: "The server's facts, by llama-server's API" },
  {
    method: "GET",
    path: "/lora-adapters",
    // Adapters are merged into their model, so the list is empty.
    handler: (c) => c.json([]),
    ...api,
    summary: "Adapters that requests may scale, by llama-server's API: none",
  },
  { method: "GET", path: "/slots", handler: slots, ...api, summary: "Seats and their use, by llama-server's API" },
];
