/**
 * `millrace chat`: a conversation in the terminal. Ctrl-C stops an answer in progress; between answers it ends the
 * program.
 */

import { createInterface, type Interface } from "node:readline/promises";
import { Command } from "commander";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { SamplingChoice, SamplingSource } from "../../local/sampling.js";
import { type LocalSession, openLocalSession } from "../../local/session.js";
import type { ChatMessage, ChatTemplate } from "../../text/template/chat-template.js";
import { chatPromptIds } from "../../text/text-side.js";
import { addCommonEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { addSamplingOptions, chosenSampling } from "../flags/sampling-options.js";
import { describeSampling } from "../output/describe-sampling.js";
import { stagesTo } from "../output/stages.js";
import { statsLine } from "./generate.js";

interface ChatFlags extends EngineFlags, SamplingChoice, SamplingSource {
  readonly model?: string;
  readonly chatTemplate?: string;
  readonly system?: string;
}

export function chatCommand(): Command {
  const command = new Command("chat")
    .usage("[model] [options]")
    .description("Talk to a model in the terminal: /reset starts over, /exit ends.")
    .addOption(modelOption())
    .option("--system <text>", "system message")
    .option("--chat-template <file>", "use this template instead of the model's own");
  return addCommonEngineOptions(addSamplingOptions(command)).action(runChat);
}

async function runChat(flags: ChatFlags): Promise<void> {
  const session = await openLocalSession(
    { ...flags, engine: engineSettingsFrom(flags) },
    flags,
    stagesTo(process.stderr),
  );
  const terminal = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  try {
    if (session.chatTemplate === undefined) {
      throw new MillraceError(
        "template_missing",
        `expected a model with a chat template, got ${session.name} without`,
        {
          hint: "give --chat-template, or use millrace generate --raw",
        },
      );
    }
    const sampling = describeSampling({ ...session.samplingDefaults, ...chosenSampling(flags) });
    const about = sampling === "" ? session.name : `${session.name}, ${sampling}`;
    process.stderr.write(`\n  ${about}; /reset starts over, /exit ends\n\n`);
    await new Conversation(session, session.chatTemplate, terminal, flags.system).run();
  } finally {
    terminal.close();
    await session.close();
  }
}

class Conversation {
  #messages: ChatMessage[] = [];
  /** Stops the answer in progress, if there is one. */
  #answering: AbortController | undefined;

  constructor(
    private readonly session: LocalSession,
    private readonly template: ChatTemplate,
    private readonly terminal: Interface,
    private readonly system: string | undefined,
  ) {
    this.#reset();
  }

  /** Ends with /exit, Ctrl-D, or Ctrl-C between answers. */
  async run(): Promise<void> {
    this.terminal.on("SIGINT", () => {
      if (this.#answering === undefined) this.terminal.close();
      else this.#answering.abort();
    });
    let isClosed = false;
    this.terminal.once("close", () => {
      isClosed = true;
    });
    this.terminal.prompt();
    for await (const line of this.terminal) {
      const text = line.trim();
      if (text === "/exit") return;
      if (text === "/reset") {
        this.#reset();
        process.stdout.write("new conversation\n");
      } else if (text.startsWith("/")) process.stdout.write("/reset starts over, /exit ends\n");
      else if (text !== "") await this.#answer(text);
      // Piped input can end before the last answer is written.
      if (!isClosed) this.terminal.prompt();
    }
  }

  #reset(): void {
    this.#messages = this.system === undefined ? [] : [{ role: "system", content: this.system }];
  }

  async #answer(text: string): Promise<void> {
    const messages = [...this.#messages, { role: "user", content: text }];
    this.#answering = new AbortController();
    try {
      const promptIds = chatPromptIds(this.session.tokenizer, this.template, messages);
      const write = (piece: string): boolean => process.stdout.write(piece);
      const stats = await this.session.answer(promptIds, write, this.#answering.signal);
      process.stdout.write(`\n[${statsLine(stats)}]\n`);
      this.#messages = [...messages, { role: "assistant", content: stats.text }];
    } catch (thrown) {
      // The failed question is dropped, so that a shorter one, or /reset, can follow.
      const { code, message, hint } = toMillraceError(thrown);
      process.stdout.write(`error [${code}]: ${message}${hint === undefined ? "" : `\nhint: ${hint}`}\n`);
      if (code === "engine_failed") throw thrown;
    } finally {
      this.#answering = undefined;
    }
  }
}
