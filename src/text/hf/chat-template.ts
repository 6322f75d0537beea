/**
 * Reads the chat template of a model folder: a separate file in newer folders, an entry of tokenizer_config.json in
 * older ones.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { configError, type JsonObject, readTextFile } from "../../formats/files/json.js";
import { TOOL_TEMPLATE_NAME } from "../../formats/hf/folder.js";
import { ChatTemplate, type ChatTemplateOptions } from "../template/chat-template.js";
import { readOptional, tokenText } from "./create-tokenizer.js";

/** Undefined if the folder has none. */
export function readHfChatTemplate(folder: string, options: ChatTemplateOptions = {}): ChatTemplate | undefined {
  const settings = readOptional(folder, "tokenizer_config.json");
  const { source, toolSource } = readHfTemplateSource(folder, settings);
  if (source === undefined) return undefined;
  return new ChatTemplate(source, {
    toolSource,
    bosToken: tokenText(settings, "bos_token"),
    eosToken: tokenText(settings, "eos_token"),
    unkToken: tokenText(settings, "unk_token"),
    padToken: tokenText(settings, "pad_token"),
    ...options,
  });
}

/** The template's text, and the text of the separate template for tools where a folder has one. */
export function readHfTemplateSource(
  folder: string,
  settings: JsonObject | undefined = readOptional(folder, "tokenizer_config.json"),
): { source?: string; toolSource?: string } {
  const path = join(folder, "chat_template.jinja");
  if (existsSync(path)) {
    // transformers saves named templates here, whichever file they came from.
    const forTools = join(folder, TOOL_TEMPLATE_NAME);
    return { source: readTextFile(path), ...(existsSync(forTools) ? { toolSource: readTextFile(forTools) } : {}) };
  }
  const template =
    settings?.value("chat_template") ?? readOptional(folder, "chat_template.json")?.value("chat_template");
  if (template === undefined) return {};
  if (typeof template === "string") return { source: template };
  // Some models have several named templates.
  const named = (name: string): unknown =>
    Array.isArray(template) ? template.find((entry) => entry?.name === name)?.template : undefined;
  const [plain, forTools] = [named("default"), named("tool_use")];
  if (typeof plain === "string")
    return { source: plain, ...(typeof forTools === "string" ? { toolSource: forTools } : {}) };
  throw configError(`expected a chat_template of text, or one named default, in ${folder}, got neither`);
}
