/** Reads requests' prompts for the gateway as a model's instances do: with its tokenizer and template, and the flags they are started with. */
import { Command } from "commander";
import type { PromptReader } from "../fleet/routing/token-keys.js";
import type { ModelSpec } from "../fleet/upstream/model-spec.js";
import { loadTextSide, locateModel } from "./model.js";
import { silentStages } from "./stages.js";
import { addServerOptions, type ServerFlags } from "./start-server.js";

/** @returns undefined where another program is started, and where an engine keeps its own keys apart, whose names of blocks are its secret */
export async function loadPromptReader(spec: ModelSpec): Promise<PromptReader | undefined> {
  const command = addServerOptions(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  const flags = command.parse([...spec.args], { from: "user" }).opts<ServerFlags>();
  if (spec.program !== undefined || flags.isolateApiKeys === true) return undefined;
  const { createPromptReader } = await import("../serve/prompt-reader.js");
  const { path } = await locateModel(flags.model ?? spec.options.model, silentStages);
  const { tokenizer, asyncTokenizer, chatTemplate } = await loadTextSide(path, flags.chatTemplate);
  const { toolCallParser, reasoningParser } = flags;
  return createPromptReader({ tokenizer, asyncTokenizer, chatTemplate, toolCallParser, reasoningParser });
}
