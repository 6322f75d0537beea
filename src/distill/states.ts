/** Writes a model's hidden states on its own answers, for models/training/eagle3.py. */
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { StartStage } from "../core/stages.js";
import type { EngineOptions } from "../engine/api/options.js";
import { ModelStates } from "../engine/model-states.js";
import { templateOf } from "../local/session.js";
import { chatPromptIds, loadTextSide } from "../text/text-side.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import type { AnsweredPrompt } from "./answers.js";
import type { Corpora } from "./collection.js";

interface EncodedChat {
  readonly ids: readonly number[];
  /** Number of tokens before the answer. */
  readonly numPrompt: number;
  readonly family: string;
  readonly isHeldOut: boolean;
}

/**
 * Writes `states.json` with facts and chats, `tables.f32` with the embeddings and the output matrix, `ids.i32`, and
 * `states.f32` with the states of all positions, held-out chats first.
 *
 * @returns the model's context in tokens
 */
export async function writeStates(
  folder: string,
  name: string,
  options: EngineOptions & { readonly chatTemplate?: string | undefined },
  { training, heldOut }: Corpora,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<number> {
  const stage = startStage("states");
  const { tokenizer, chatTemplate } = await loadTextSide(options.modelPath, options.chatTemplate);
  const template = templateOf({ name, chatTemplate });
  const states = await ModelStates.open(options);
  const { contextLength } = states.facts;
  const encode =
    (isHeldOut: boolean) =>
    (answered: AnsweredPrompt): EncodedChat => {
      const promptIds = chatPromptIds(tokenizer, template, answered.prompt.messages);
      const ids = [...promptIds, ...answerIds(tokenizer, answered)].slice(0, contextLength);
      return { ids, numPrompt: promptIds.length, family: answered.prompt.family ?? "chat", isHeldOut };
    };
  const all = [...heldOut.map(encode(true)), ...training.map(encode(false))];
  // A prompt that fills the context leaves no room for an answer.
  const chats = all.filter(({ ids, numPrompt }) => ids.length > numPrompt);
  mkdirSync(folder, { recursive: true });
  const fd = openSync(join(folder, "states.f32"), "w");
  try {
    for (const [index, { ids }] of chats.entries()) {
      signal.throwIfAborted();
      await states.read(ids, (values) => writeSync(fd, values));
      stage.update(`${index + 1} of ${chats.length}`);
    }
    const { embedding, output } = states.tables();
    const tables = openSync(join(folder, "tables.f32"), "w");
    writeSync(tables, embedding);
    writeSync(tables, output);
    closeSync(tables);
  } finally {
    closeSync(fd);
    states.close();
  }
  writeFileSync(join(folder, "ids.i32"), Int32Array.from(chats.flatMap(({ ids }) => ids)));
  const listed = chats.map(({ ids, ...chat }) => ({ ...chat, numTokens: ids.length }));
  writeFileSync(join(folder, "states.json"), `${JSON.stringify({ ...states.facts, chats: listed })}\n`);
  const numTokens = chats.reduce((sum, { ids }) => sum + ids.length, 0);
  stage.done(`${numTokens} positions of ${chats.length} chats`);
  return contextLength;
}

/** The answer's tokens, including its end token unless it was cut off. */
function answerIds(tokenizer: Tokenizer, { answer }: AnsweredPrompt): number[] {
  const ids = tokenizer.encode(answer.text, { addSpecial: false, parseSpecial: false });
  const end = tokenizer.eosId ?? [...tokenizer.stopIds][0];
  return answer.end === "stop" && end !== undefined ? [...ids, end] : [...ids];
}
