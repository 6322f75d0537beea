/** Opens the model that the flags choose. */
import type { Command, Option } from "commander";
import { optionError } from "../../core/option-error.js";
import type { StartStage } from "../../core/stages.js";
import { engineSettingsFrom } from "../flags/engine-options.js";
import type { Answerer, AnswererFlags } from "./answerer.js";

/** Flags of a model in this process, beside those of its engine. */
const LOCAL_FLAGS = ["--chat-template", "--generation-config", "--override-generation-config"];

const isLocal = ({ long, helpGroupHeading }: Option): boolean =>
  helpGroupHeading === "Engine:" || LOCAL_FLAGS.includes(long ?? "");

/** @param command the command with these flags */
export async function openAnswerer(flags: AnswererFlags, command: Command, startStage: StartStage): Promise<Answerer> {
  const { url } = flags;
  if (url === undefined) return await openLocal(flags, startStage);
  const stray = command.options.find(
    (option) => isLocal(option) && command.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (stray !== undefined) throw optionError("--url", "given without flags of an engine in this process", stray.long!);
  const { openServerAnswerer } = await import("./server-answerer.js");
  return await openServerAnswerer({ ...flags, url }, flags);
}

async function openLocal(flags: AnswererFlags, startStage: StartStage): Promise<Answerer> {
  const [{ openLocalSession, templateOf }, { chatPromptIds }] = await Promise.all([
    import("../../local/session.js"),
    import("../../text/text-side.js"),
  ]);
  const session = await openLocalSession({ ...flags, engine: engineSettingsFrom(flags) }, flags, startStage);
  const { name, samplingDefaults, tokenizer, chatTemplate } = session;
  return {
    name,
    samplingDefaults,
    canChat: chatTemplate !== undefined,
    chat: async (messages, { onText }, signal) =>
      await session.answer(chatPromptIds(tokenizer, templateOf(session), messages), onText, signal),
    complete: async (prompt, { onText }, signal) =>
      await session.answer(tokenizer.encode(prompt, { addSpecial: true, parseSpecial: true }), onText, signal),
    close: () => session.close(),
  };
}
