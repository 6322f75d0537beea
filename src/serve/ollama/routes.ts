/** The paths of Ollama's API. */
import { OLLAMA_ERRORS } from "../../core/error-body.js";
import { api, info, type Route } from "../http/route.js";
import { CHAT_RULES, chat } from "./chat.js";
import { EMBED_RULES, embed, LEGACY_EMBED_RULES, legacyEmbed } from "./embed.js";
import { GENERATE_RULES, generate } from "./generate.js";
import { apiVersion, NAMED_RULES, pull, remove, running, show, tags } from "./models.js";

const ollamaApi = { ...api, dialect: OLLAMA_ERRORS } as const;

export const OLLAMA_ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/api/chat",
    handler: chat,
    ...ollamaApi,
    task: "generate",
    summary: "An answer to a chat, by Ollama's API",
    rules: CHAT_RULES,
  },
  {
    method: "POST",
    path: "/api/generate",
    handler: generate,
    ...ollamaApi,
    task: "generate",
    summary: "An answer to a prompt, by Ollama's API",
    rules: GENERATE_RULES,
  },
  {
    method: "POST",
    path: "/api/embed",
    handler: embed,
    ...ollamaApi,
    task: "embed",
    summary: "Vectors of texts, by Ollama's API",
    rules: EMBED_RULES,
  },
  {
    method: "POST",
    path: "/api/embeddings",
    handler: legacyEmbed,
    ...ollamaApi,
    task: "embed",
    summary: "A vector of a text, by Ollama's earlier API",
    rules: LEGACY_EMBED_RULES,
  },
  { method: "GET", path: "/api/tags", handler: tags, ...ollamaApi, summary: "The served names, by Ollama's API" },
  { method: "GET", path: "/api/ps", handler: running, ...ollamaApi, summary: "The loaded models, by Ollama's API" },
  {
    method: "GET",
    path: "/api/version",
    handler: apiVersion,
    ...info,
    dialect: OLLAMA_ERRORS,
    summary: "The version of Ollama's API",
  },
  {
    method: "POST",
    path: "/api/show",
    handler: show,
    ...ollamaApi,
    summary: "A model's facts, by Ollama's API",
    rules: NAMED_RULES,
  },
  {
    method: "POST",
    path: "/api/pull",
    handler: pull,
    ...ollamaApi,
    isForAdmin: true,
    summary: "Fetches a model of the hub, by Ollama's API",
    rules: NAMED_RULES,
  },
  {
    method: "DELETE",
    path: "/api/delete",
    handler: remove,
    ...ollamaApi,
    isForAdmin: true,
    summary: "Removes a model from the disk, by Ollama's API",
    rules: NAMED_RULES,
  },
];
