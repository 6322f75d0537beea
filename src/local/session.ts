/** A model in this process that answers prompts: token ids in, text out while it is generated, with timings. */
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import type { Engine } from "../engine/api/engine.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { recipeText } from "../text/answer/answer-recipe.js";
import type { AnswerForm } from "../text/grammar/answer-form.js";
import type { ChatTemplate } from "../text/template/chat-template.js";
import type { ChatMessage } from "../text/template/prepare-messages.js";
import { chatPromptIds } from "../text/text-side.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import { type SamplingChoice, samplingFrom } from "./sampling.js";
import { type ModelSource, startEngineWithText } from "./start-engine.js";

/** One answer and its timings. */
export interface AnswerStats {
  readonly text: string;
  readonly numPromptTokens: number;
  readonly numCachedTokens: number;
  /** Tokens whose keys and values were evicted before the answer ended. */
  readonly numEvictedTokens: number;
  readonly numOutputTokens: number;
  readonly timeToFirstTokenMs: number;
  /** Rate after the first token; undefined for fewer than two tokens. */
  readonly tokensPerSecond: number | undefined;
  readonly end: "stop" | "length" | "cancelled";
}

export interface LocalSession {
  readonly name: string;
  /** The model's file or folder. */
  readonly path: string;
  /** The weight files, in order. */
  readonly files: readonly string[];
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate | undefined;
  /** For values that the session's choice lacks. */
  readonly samplingDefaults: SamplingDefaults;
  /**
   * Streams one answer; aborting the signal ends it at that point.
   * @param own replaces values of the session's choice
   * @param form required form of the answer
   */
  answer(
    promptIds: readonly number[],
    onText: (text: string) => void,
    signal?: AbortSignal,
    own?: SamplingChoice,
    form?: AnswerForm,
  ): Promise<AnswerStats>;
  close(): Promise<void>;
}

export async function openLocalSession(
  source: ModelSource,
  choice: SamplingChoice,
  startStage: StartStage,
): Promise<LocalSession> {
  const started = await startEngineWithText(source, startStage);
  const { name, path, files, engine, tokenizer, chatTemplate, samplingDefaults } = started;
  const { Generation } = await import("../serve/generation/generation.js");

  function answer(
    promptIds: readonly number[],
    onText: (text: string) => void,
    signal?: AbortSignal,
    own?: SamplingChoice,
    form?: AnswerForm,
  ): Promise<AnswerStats> {
    const chosen = { ...choice, ...own };
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
      engineRequest: {
        promptIds: Int32Array.from(promptIds),
        sampling: samplingFrom(chosen, samplingDefaults, tokensLeft, [...tokenizer.stopIds]),
        ...(form === undefined ? {} : { constraint: { recipe: recipeText(form) } }),
      },
      stopStrings: chosen.stop ?? [],
      isStopIncluded: false,
      keepSpecial: false,
    };
    return new Promise((resolve, reject) => {
      const startMs = performance.now();
      let firstMs: number | undefined;
      let text = "";
      let [numCachedTokens, numEvictedTokens] = [0, 0];
      const finish = (end: AnswerStats["end"]): void => {
        signal?.removeEventListener("abort", onAbort);
        const numOutputTokens = generation.numTokens;
        const spanSeconds = (performance.now() - (firstMs ?? startMs)) / 1000;
        resolve({
          text,
          numPromptTokens,
          numCachedTokens,
          numEvictedTokens,
          numOutputTokens,
          end,
          timeToFirstTokenMs: (firstMs ?? performance.now()) - startMs,
          tokensPerSecond: numOutputTokens > 1 && spanSeconds > 0 ? (numOutputTokens - 1) / spanSeconds : undefined,
        });
      };
      const generation = new Generation(request, tokenizer, {
        onUpdate: (update) => {
          firstMs ??= performance.now();
          ({ numCachedTokens, numEvictedTokens } = update);
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
      // A signal that is aborted already fires no event.
      if (signal?.aborted === true) finish("cancelled");
      else generation.start(engine);
    });
  }

  const close = async (): Promise<void> => void (await engine.close());
  return { name, path, files, engine, tokenizer, chatTemplate, samplingDefaults, answer, close };
}

/** Throws template_missing. */
export function templateOf({ name, chatTemplate }: Pick<LocalSession, "name" | "chatTemplate">): ChatTemplate {
  if (chatTemplate !== undefined) return chatTemplate;
  throw new MillraceError("template_missing", `expected a model with a chat template, got ${name} without`, {
    hint: "give --chat-template",
  });
}

/**
 * Complete answers to chats, with the session's sampling.
 *
 * @param seedOf the seed for each prompt
 * @param form required form of all answers
 */
export function askOf(session: LocalSession, seedOf: (messages: readonly PlainMessage[]) => number, form?: AnswerForm) {
  const template = templateOf(session);
  return async (messages: readonly PlainMessage[], signal: AbortSignal, tools: readonly unknown[] = []) => {
    const promptIds = chatPromptIds(session.tokenizer, template, messages, tools);
    const seed = BigInt(seedOf(messages));
    const { text, end, numPromptTokens, numOutputTokens } = await session.answer(
      promptIds,
      () => {},
      signal,
      { seed },
      form,
    );
    if (end === "cancelled") throw signal.reason;
    return { text, end, numPromptTokens, numOutputTokens };
  };
}

type PlainMessage = Pick<ChatMessage, "role"> & { readonly content: string };
