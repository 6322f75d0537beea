/** An engine inside the command's own process, for `generate` and `chat`: prompt in, text out as it comes, with timings. */
import { MillraceError } from "../core/errors.js";
import type { Engine } from "../engine/api/engine.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { SOLE_USER_TERMS } from "../serve/job-terms.js";
import type { ChatMessage, ChatTemplate } from "../text/template/chat-template.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import type { EngineFlags } from "./engine-options.js";
import type { GenerationConfigFlags } from "./generation-config.js";
import { type SamplingFlags, samplingFrom } from "./sampling-options.js";
import type { StartStage } from "./stages.js";
import { startEngineWithText } from "./start-engine.js";

export interface LocalSessionFlags extends EngineFlags, SamplingFlags, GenerationConfigFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
}

/** How an answer went. */
export interface AnswerStats {
  readonly text: string;
  readonly numPromptTokens: number;
  readonly numCachedTokens: number;
  readonly numOutputTokens: number;
  readonly timeToFirstTokenMs: number;
  /** After the first token; undefined for fewer than two. */
  readonly tokensPerSecond: number | undefined;
  readonly end: "stop" | "length" | "cancelled";
}

export interface LocalSession {
  readonly name: string;
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /** What holds where no flag says otherwise. */
  readonly samplingDefaults: SamplingDefaults;
  /** Streams one answer; aborting the signal ends it where it is. `seed` is instead of the flags'. */
  answer(
    promptIds: readonly number[],
    onText: (text: string) => void,
    signal?: AbortSignal,
    seed?: number,
  ): Promise<AnswerStats>;
  close(): Promise<void>;
}

/** The ids of a chat through the template, up to where the answer begins. */
export function chatPromptIds(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
): number[] {
  const text = template.render({ messages, addGenerationPrompt: true });
  return tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
}

export async function openLocalSession(flags: LocalSessionFlags, startStage: StartStage): Promise<LocalSession> {
  const { name, engine, tokenizer, chatTemplate, samplingDefaults } = await startEngineWithText(flags, startStage);
  const { Generation } = await import("../serve/generation.js");

  function answer(
    promptIds: readonly number[],
    onText: (text: string) => void,
    signal?: AbortSignal,
    seed?: number,
  ): Promise<AnswerStats> {
    const numPromptTokens = promptIds.length;
    const { maxModelLen, numKvBlocks, blockSize } = engine.info;
    const tokensLeft = Math.min(maxModelLen, numKvBlocks * blockSize) - numPromptTokens;
    if (tokensLeft < 1) {
      throw new MillraceError(
        "context_length_exceeded",
        `expected a prompt of fewer than ${numPromptTokens + tokensLeft} tokens, got ${numPromptTokens}`,
        { hint: "shorten the prompt, or start a new conversation" },
      );
    }
    const request = {
      promptIds: Int32Array.from(promptIds),
      sampling: samplingFrom(
        seed === undefined ? flags : { ...flags, seed: BigInt(seed) },
        samplingDefaults,
        tokensLeft,
        [...tokenizer.stopIds],
      ),
      stopStrings: flags.stop ?? [],
      isStopIncluded: false,
      keepSpecial: false,
      cacheSalt: undefined,
    };
    return new Promise((resolve, reject) => {
      const startMs = performance.now();
      let firstMs: number | undefined;
      let text = "";
      let numCachedTokens = 0;
      const finish = (end: AnswerStats["end"]): void => {
        signal?.removeEventListener("abort", onAbort);
        const numOutputTokens = generation.numTokens;
        const spanSeconds = (performance.now() - (firstMs ?? startMs)) / 1000;
        resolve({
          text,
          numPromptTokens,
          numCachedTokens,
          numOutputTokens,
          end,
          timeToFirstTokenMs: (firstMs ?? performance.now()) - startMs,
          tokensPerSecond: numOutputTokens > 1 && spanSeconds > 0 ? (numOutputTokens - 1) / spanSeconds : undefined,
        });
      };
      const generation = new Generation(request, tokenizer, {
        onUpdate: (update) => {
          firstMs ??= performance.now();
          numCachedTokens = update.numCachedTokens;
          text += update.text;
          if (update.text !== "") onText(update.text);
          if (update.end !== undefined) finish(update.end.reason);
        },
        onError: reject,
      });
      const onAbort = (): void => {
        generation.abort();
        finish("cancelled");
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      generation.start(engine, SOLE_USER_TERMS);
    });
  }

  return { name, engine, tokenizer, chatTemplate, samplingDefaults, answer, close: () => engine.close() };
}
