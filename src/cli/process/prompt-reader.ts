/** Reads prompts for the gateway as the model's instances read them: with the same tokenizer, template and flags. */

import { Command } from "commander";
import { silentStages } from "../../core/stages.js";
import type { PromptReader } from "../../fleet/routing/token-keys.js";
import type { ModelSpec } from "../../fleet/upstream/model-spec.js";
import { locateModel } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { addServerOptions, type ServerFlags } from "../flags/server-options.js";

/** @returns undefined for another program, and for an engine that keeps API keys apart: its block hashes are secret */
export async function loadPromptReader(spec: ModelSpec): Promise<PromptReader | undefined> {
  const command = addServerOptions(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  const flags = command.parse([...spec.args], { from: "user" }).opts<ServerFlags>();
  if (spec.program !== undefined || flags.isolateApiKeys === true) return undefined;
  const { createPromptReader } = await import("../../serve/prompt-reader.js");
  const { path } = await locateModel(flags.model ?? spec.options.model, silentStages);
  const { tokenizer, asyncTokenizer, chatTemplate } = await loadTextSide(path, flags.chatTemplate);
  const { toolCallParser, reasoningParser } = flags;
  return createPromptReader({ tokenizer, asyncTokenizer, chatTemplate, toolCallParser, reasoningParser });
}
