/** `millrace generate`: answers one prompt on stdout while the text arrives, with timings on stderr. */

import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { quietStages } from "../../core/stages.js";
import type { Answerer, AnswererFlags, AnswerListener } from "../answer/answerer.js";
import { openAnswerer } from "../answer/open-answerer.js";
import { printedTo, statsLine } from "../answer/print-answer.js";
import { addCommonEngineOptions } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { readPiped } from "../flags/read-input.js";
import { addSamplingOptions } from "../flags/sampling-options.js";
import { addServerOptions } from "../flags/server-flags.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

const SILENT: AnswerListener = { onText: () => {}, onReasoning: () => {} };

interface GenerateFlags extends AnswererFlags {
  readonly prompt?: string;
  readonly raw?: boolean;
  readonly chat?: boolean;
  readonly json?: boolean;
}

export function generateCommand(): Command {
  const command = addServerOptions(new Command("generate").addOption(modelOption()), "its only one")
    .usage("[model] [options]")
    .description("Answer one prompt and exit.")
    .option("--prompt <text>", "the prompt; - reads stdin")
    .option("--raw", "continue the prompt as written, without the chat template")
    .option("--chat", "send the prompt as a chat message (default if the model has a template)")
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option("--json", "print one JSON object at the end instead of streaming");
  return addCommonEngineOptions(addSamplingOptions(command)).action(runGenerate);
}

/** Throws template_missing. */
function answerTo(
  answerer: Answerer,
  { prompt, raw, chat }: GenerateFlags & { readonly prompt: string },
  listener: AnswerListener,
) {
  if (raw || (!answerer.canChat && !chat)) return answerer.complete(prompt, listener);
  if (!answerer.canChat) {
    throw new MillraceError("template_missing", "expected a model with a chat template for --chat, got one without", {
      hint: "use --raw, or give --chat-template",
    });
  }
  return answerer.chat([{ role: "user", content: prompt }], listener);
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

async function runGenerate(flags: GenerateFlags, command: Command): Promise<void> {
  if (flags.raw && flags.chat) {
    throw new MillraceError("invalid_option", "expected --raw or --chat, got both", { hint: "leave one out" });
  }
  if (flags.prompt === undefined) {
    throw new MillraceError("invalid_option", "expected --prompt, got none", { hint: PROMPT_WAYS });
  }
  const prompt = flags.prompt === "-" ? pipedPrompt() : flags.prompt;
  const answerer = await openAnswerer(
    flags,
    command,
    process.stderr.isTTY ? stagesTo(process.stderr) : quietStages(warn),
  );
  try {
    const listener = flags.json ? SILENT : printedTo(process.stdout, process.stderr);
    const answer = await answerTo(answerer, { ...flags, prompt }, listener);
    if (flags.json) process.stdout.write(`${jsonText(answer)}\n`);
    else process.stdout.write("\n");
    process.stderr.write(`${statsLine(answer)}\n`);
  } finally {
    await answerer.close();
  }
}
