/** `millrace generate`: answers one prompt on stdout as the text comes, with timings on stderr. */

import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { formatDuration } from "../../core/quantities.js";
import { quietStages } from "../../core/stages.js";
import type { SamplingChoice, SamplingSource } from "../../local/sampling.js";
import { type AnswerStats, type LocalSession, openLocalSession } from "../../local/session.js";
import { chatPromptIds } from "../../text/text-side.js";
import { addCommonEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { readPiped } from "../flags/read-input.js";
import { addSamplingOptions } from "../flags/sampling-options.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

interface GenerateFlags extends EngineFlags, SamplingChoice, SamplingSource {
  readonly model?: string;
  readonly chatTemplate?: string;
  readonly prompt?: string;
  readonly raw?: boolean;
  readonly chat?: boolean;
  readonly json?: boolean;
}

export function generateCommand(): Command {
  const command = new Command("generate")
    .usage("[model] [options]")
    .description("Answer one prompt and exit.")
    .addOption(modelOption())
    .option("--prompt <text>", "the prompt; - reads stdin")
    .option("--raw", "continue the prompt as written, without the chat template")
    .option("--chat", "send the prompt as a chat message (default if the model has a template)")
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option("--json", "print one JSON object at the end instead of streaming");
  return addCommonEngineOptions(addSamplingOptions(command)).action(runGenerate);
}

function promptIdsOf(flags: GenerateFlags & { readonly prompt: string }, session: LocalSession): number[] {
  const { tokenizer, chatTemplate } = session;
  if (flags.raw || (chatTemplate === undefined && !flags.chat)) {
    return tokenizer.encode(flags.prompt, { addSpecial: true, parseSpecial: true });
  }
  if (chatTemplate === undefined) {
    throw new MillraceError("template_missing", "expected a model with a chat template for --chat, got one without", {
      hint: "use --raw, or give --chat-template",
    });
  }
  return chatPromptIds(tokenizer, chatTemplate, [{ role: "user", content: flags.prompt }]);
}

export function statsLine(stats: AnswerStats): string {
  const { numPromptTokens, numCachedTokens, numEvictedTokens, numOutputTokens } = stats;
  const { timeToFirstTokenMs, tokensPerSecond, end } = stats;
  const evicted = numEvictedTokens > 0 ? `, ${numEvictedTokens} evicted` : "";
  const cached = numCachedTokens > 0 ? ` (${numCachedTokens} cached)` : "";
  const speed = tokensPerSecond === undefined ? "" : `, ${tokensPerSecond.toFixed(1)} tok/s`;
  return `${numPromptTokens} prompt tokens${cached}, ${numOutputTokens} output tokens${evicted}, first after ${formatDuration(timeToFirstTokenMs)}${speed}, ended by ${end}`;
}

const PROMPT_WAYS =
  "give --prompt TEXT, or pipe in a prompt with --prompt -: echo hello | millrace generate --prompt -";

/** The line end that `echo` adds is not part of the prompt. */
function pipedPrompt(): string {
  return readPiped(PROMPT_WAYS).replace(/\r?\n$/, "");
}

function warn(text: string): void {
  process.stderr.write(`note: ${text}\n`);
}

async function runGenerate(flags: GenerateFlags): Promise<void> {
  if (flags.raw && flags.chat) {
    throw new MillraceError("invalid_option", "expected --raw or --chat, got both", { hint: "leave one out" });
  }
  if (flags.prompt === undefined) {
    throw new MillraceError("invalid_option", "expected --prompt, got none", { hint: PROMPT_WAYS });
  }
  const prompt = flags.prompt === "-" ? pipedPrompt() : flags.prompt;
  const session = await openLocalSession(
    { ...flags, engine: engineSettingsFrom(flags) },
    flags,
    process.stderr.isTTY ? stagesTo(process.stderr) : quietStages(warn),
  );
  try {
    const write = flags.json ? () => {} : (text: string) => process.stdout.write(text);
    const stats = await session.answer(promptIdsOf({ ...flags, prompt }, session), write);
    if (flags.json) process.stdout.write(`${jsonText(stats)}\n`);
    else process.stdout.write("\n");
    process.stderr.write(`${statsLine(stats)}\n`);
  } finally {
    await session.close();
  }
}
