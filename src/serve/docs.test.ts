/**
 * docs/reference/http-api.md names every field that an endpoint accepts, ignores or refuses, in the sections about the
 * endpoint.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../core/package-root.js";
import { COUNT_TOKENS_RULES } from "./anthropic/count-tokens.js";
import { MESSAGE_RULES } from "./anthropic/messages.js";
import { LLAMA_COMPLETION_RULES } from "./llama/completion.js";
import { INFILL_RULES } from "./llama/infill.js";
import { TEMPLATE_RULES } from "./llama/props.js";
import { CHAT_RULES as OLLAMA_CHAT_RULES } from "./ollama/chat.js";
import { EMBED_RULES, LEGACY_EMBED_RULES } from "./ollama/embed.js";
import { GENERATE_RULES } from "./ollama/generate.js";
import { NAMED_RULES } from "./ollama/models.js";
import { CHAT_RULES } from "./openai/chat-completions.js";
import { COHERE_EMBED_RULES } from "./openai/cohere-embed.js";
import { COMPLETION_RULES } from "./openai/completions.js";
import { EMBEDDING_RULES } from "./openai/embeddings.js";
import { RERANK_RULES, SCORE_RULES } from "./openai/rerank.js";
import { RESPONSE_RULES } from "./openai/response-request.js";
import { DETOKENIZE_RULES, TOKENIZE_RULES } from "./openai/tokenize.js";

const sections = new Map(
  readFileSync(join(packageRoot(), "docs/reference/http-api.md"), "utf8")
    .split(/^## /m)
    .map((section) => [section.split("\n", 1)[0]!, section]),
);

const SHARED = ["Fields of chat and completions", "Ignored and refused"];

const ENDPOINTS = [
  ["/v1/chat/completions", CHAT_RULES, [...SHARED, "llama-server's API"]],
  ["/v1/completions", COMPLETION_RULES, [...SHARED, "llama-server's API"]],
  ["/v1/responses", RESPONSE_RULES, ["Responses", "Ignored and refused", "llama-server's API"]],
  ["/v1/embeddings", EMBEDDING_RULES, ["Embeddings"]],
  ["/v2/embed", COHERE_EMBED_RULES, ["Embeddings"]],
  ["/v1/rerank", RERANK_RULES, ["Rerank"]],
  ["/v1/score", SCORE_RULES, ["Rerank"]],
  ["/v1/messages", MESSAGE_RULES, ["Messages"]],
  ["/v1/messages/count_tokens", COUNT_TOKENS_RULES, ["Messages"]],
  ["/api/chat", OLLAMA_CHAT_RULES, ["Ollama's API"]],
  ["/api/generate", GENERATE_RULES, ["Ollama's API"]],
  ["/api/embed", EMBED_RULES, ["Ollama's API"]],
  ["/api/embeddings", LEGACY_EMBED_RULES, ["Ollama's API"]],
  ["/api/show", NAMED_RULES, ["Ollama's API"]],
  ["/completion", LLAMA_COMPLETION_RULES, ["llama-server's API"]],
  ["/infill", INFILL_RULES, ["llama-server's API"]],
  ["/apply-template", TEMPLATE_RULES, ["llama-server's API"]],
  ["/tokenize", TOKENIZE_RULES, ["Tokenize"]],
  ["/detokenize", DETOKENIZE_RULES, ["Tokenize"]],
] as const;

test.each(ENDPOINTS)("docs/reference/http-api.md names every field of %s", (_, rules, titles) => {
  const { schema, inert, unsupported } = rules;
  const aliases = "aliases" in rules ? rules.aliases : {};
  const text = titles.map((title) => sections.get(title) ?? expect.fail(`no section "${title}"`)).join("");
  const fields = [...Object.keys(schema.shape), ...inert, ...Object.keys(unsupported), ...Object.keys(aliases ?? {})];
  // The documentation may name one of a field's parts instead.
  const isNamed = (field: string): boolean =>
    text.includes(`\`${field}\``) || text.includes(`\`${field}.`) || text.includes(`\`${field}: `);
  expect(fields.filter((field) => !isNamed(field))).toEqual([]);
});
