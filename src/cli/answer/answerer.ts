/** A model that answers prompts from the terminal: in this process, or behind a server. */
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { SamplingChoice, SamplingSource } from "../../local/sampling.js";
import type { AnswerStats } from "../../local/session.js";
import type { ChatMessage } from "../../text/template/prepare-messages.js";
import type { EngineFlags } from "../flags/engine-options.js";
import type { ServerFlags } from "../flags/server-flags.js";

export interface Answer extends Omit<AnswerStats, "numPromptTokens" | "end"> {
  /** Undefined: the server does not report it. */
  readonly numPromptTokens: number | undefined;
  /** The reason for the end; servers have more of them than engines. */
  readonly end: string;
}

/** Called while an answer arrives. */
export interface AnswerListener {
  onText(text: string): void;
  /** Servers separate reasoning from the answer; in this process, it is part of the text. */
  onReasoning(text: string): void;
}

export interface Answerer {
  readonly name: string;
  /** Sampling that applies without the user's choice. A server keeps its own private. */
  readonly samplingDefaults: SamplingDefaults;
  readonly canChat: boolean;
  /** Answers a conversation. Aborting the signal ends the answer at that point. */
  chat(messages: readonly ChatMessage[], listener: AnswerListener, signal?: AbortSignal): Promise<Answer>;
  /** Continues a text without a template. */
  complete(prompt: string, listener: AnswerListener, signal?: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

/** The flags that choose the answering model and its sampling. */
export interface AnswererFlags extends EngineFlags, SamplingChoice, SamplingSource, ServerFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
}
