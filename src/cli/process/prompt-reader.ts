/** Reads prompts for the gateway as the model's instances do: with the same tokenizer, template and flags. */

import { Command } from "commander";
import { silentStages } from "../../core/stages.js";
import type { PromptReader } from "../../fleet/routing/token-keys.js";
import type { ModelSpec } from "../../fleet/upstream/model-spec.js";
import { isHfFolder } from "../../formats/hf/folder.js";
import { locateModel } from "../../formats/locate-model.js";
import type { PromptSource } from "../../serve/prompt-reader.js";
import { loadTextSide } from "../../text/text-side.js";
import { addServerOptions, type ServerFlags } from "../flags/server-options.js";

/** vLLM's arguments that build prompts differently from the model's folder. */
const CHANGES_PROMPTS =
  /^--(tokenizer|config|chat[-_]template|default[-_]chat[-_]template|trust[-_]request[-_]chat[-_]template)/;

/**
 * @returns undefined for another program than the engine's own, for an engine that separates API keys (its block hashes
 * are secret), and for specifications that do not determine how prompts are built
 */
export async function loadPromptReader(spec: ModelSpec): Promise<PromptReader | undefined> {
  if (spec.engine === "vllm") return loadVllmReader(spec);
  const command = addServerOptions(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  const flags = command.parse([...spec.args], { from: "user" }).opts<ServerFlags>();
  if (spec.program !== undefined || flags.isolateApiKeys === true) return undefined;
  const { path } = await locateModel(flags.model ?? spec.options.model, silentStages);
  const { toolCallParser, reasoningParser, defaultChatTemplateKwargs: templateDefaults } = flags;
  return openReader(path, flags.chatTemplate, { toolCallParser, reasoningParser, templateDefaults });
}

/** vLLM reads a folder's tokenizer and template as we do. Only vLLM itself resolves names on the hub. */
async function loadVllmReader({ args, options: { model } }: ModelSpec): Promise<PromptReader | undefined> {
  if (!isHfFolder(model) || args.some((argument) => CHANGES_PROMPTS.test(argument))) return undefined;
  return openReader(model, undefined, {});
}

async function openReader(
  path: string,
  templatePath: string | undefined,
  settings: Pick<PromptSource, "toolCallParser" | "reasoningParser" | "templateDefaults">,
): Promise<PromptReader> {
  const { createPromptReader } = await import("../../serve/prompt-reader.js");
  const { tokenizer, asyncTokenizer, chatTemplate } = await loadTextSide(path, templatePath);
  return createPromptReader({ tokenizer, asyncTokenizer, chatTemplate, ...settings });
}
