/**
 * `millrace chat`: a conversation in the terminal. Ctrl-C stops an answer in progress; between answers it ends the
 * program.
 */

import { createInterface, type Interface } from "node:readline/promises";
import { Command } from "commander";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { ChatMessage } from "../../text/template/prepare-messages.js";
import type { Answerer, AnswererFlags } from "../answer/answerer.js";
import { openAnswerer } from "../answer/open-answerer.js";
import { printedTo, statsLine } from "../answer/print-answer.js";
import { addCommonEngineOptions } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { addSamplingOptions, chosenSampling } from "../flags/sampling-options.js";
import { addServerOptions } from "../flags/server-flags.js";
import { describeSampling } from "../output/describe-sampling.js";
import { stagesTo } from "../output/stages.js";

interface ChatFlags extends AnswererFlags {
  readonly system?: string;
}

export function chatCommand(): Command {
  const command = addServerOptions(new Command("chat").addOption(modelOption()), "its only one")
    .usage("[model] [options]")
    .description("Talk to a model in the terminal: /reset starts over, /exit ends.")
    .option("--system <text>", "system message")
    .option("--chat-template <file>", "use this template instead of the model's own");
  return addCommonEngineOptions(addSamplingOptions(command)).action(runChat);
}

async function runChat(flags: ChatFlags, command: Command): Promise<void> {
  const answerer = await openAnswerer(flags, command, stagesTo(process.stderr));
  const terminal = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  try {
    if (!answerer.canChat) {
      throw new MillraceError(
        "template_missing",
        `expected a model with a chat template, got ${answerer.name} without`,
        {
          hint: "give --chat-template, or use millrace generate --raw",
        },
      );
    }
    const sampling = describeSampling({ ...answerer.samplingDefaults, ...chosenSampling(flags) });
    const about = sampling === "" ? answerer.name : `${answerer.name}, ${sampling}`;
    process.stderr.write(`\n  ${about}; /reset starts over, /exit ends\n\n`);
    await new Conversation(answerer, terminal, flags.system).run();
  } finally {
    terminal.close();
    await answerer.close();
  }
}

class Conversation {
  #messages: ChatMessage[] = [];
  /** Stops the answer in progress, if any. */
  #answering: AbortController | undefined;

  constructor(
    private readonly answerer: Answerer,
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
      const listener = printedTo(process.stdout, process.stderr);
      const answer = await this.answerer.chat(messages, listener, this.#answering.signal);
      process.stdout.write(`\n[${statsLine(answer)}]\n`);
      this.#messages = [...messages, { role: "assistant", content: answer.text }];
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
