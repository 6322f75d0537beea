/** A model that answers prompts of the terminal: in this process, or behind a server. */
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { SamplingChoice, SamplingSource } from "../../local/sampling.js";
import type { AnswerStats } from "../../local/session.js";
import type { ChatMessage } from "../../text/template/prepare-messages.js";
import type { EngineFlags } from "../flags/engine-options.js";
import type { ServerFlags } from "../flags/server-flags.js";

export interface Answer extends Omit<AnswerStats, "numPromptTokens" | "end"> {
  /** Undefined: the server does not say. */
  readonly numPromptTokens: number | undefined;
  /** Servers have further reasons than engines. */
  readonly end: string;
}

/** Told of an answer as it comes. */
export interface AnswerListener {
  onText(text: string): void;
  /** Servers tell reasoning from the answer; in this process it is part of the text. */
  onReasoning(text: string): void;
}

export interface Answerer {
  readonly name: string;
  /** Sampling where the user chooses none. A server keeps its own to itself. */
  readonly samplingDefaults: SamplingDefaults;
  readonly canChat: boolean;
  /** Answers a conversation. Aborting the signal ends the answer there. */
  chat(messages: readonly ChatMessage[], listener: AnswerListener, signal?: AbortSignal): Promise<Answer>;
  /** Goes on with a text as it is written. */
  complete(prompt: string, listener: AnswerListener, signal?: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** The flags that say which model answers, and how. */
export interface AnswererFlags extends EngineFlags, SamplingChoice, SamplingSource, ServerFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
}
