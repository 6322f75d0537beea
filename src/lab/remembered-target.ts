/** Asks a model each item once: earlier results come from memory, or from the file of a stopped run. */
import { RecordFile } from "../core/record-file.js";
import { promptId } from "../quality/ask.js";
import type { ScoredChat } from "../quality/check.js";
import { type ItemResult, resultOf } from "../quality/run-task.js";
import { type AnswerSettings, type EvalTarget, itemSchema } from "./eval-target.js";

type Remembered = Omit<ItemResult, "prompt" | "expected">;
const rememberedSchema = itemSchema.omit({ prompt: true, expected: true }).extend({ id: itemSchema.shape.answer });

interface Memory {
  get(id: string): Remembered | undefined;
  add(result: Remembered & { readonly id: string }): void;
}

/** Items are asked in portions of this size, so that a stopped run loses at most one. */
const PORTION = 256;

/** Throws file_unreadable. @param path of a file to create or continue; undefined: results stay in this process */
export function rememberedTarget(
  target: EvalTarget,
  settings: Pick<AnswerSettings, "temperature" | "maxTokens" | "seed">,
  path: string | undefined,
): EvalTarget {
  const memory =
    path === undefined ? inProcess() : RecordFile.open(path, rememberedSchema.parse, "a result", "--journal");
  const { temperature, maxTokens, seed } = settings;
  const about = JSON.stringify([target.name, target.identity, temperature, maxTokens, seed]);
  const idOf = ({ messages, check, tools }: ScoredChat): string =>
    promptId([{ role: about, content: JSON.stringify([check, tools]) }, ...messages]);
  const run: EvalTarget["run"] = async (task, onProgress) => {
    const open = task.chats.filter((chat) => memory.get(idOf(chat)) === undefined);
    const numKnown = task.chats.length - open.length;
    let seconds = 0;
    for (let start = 0; start < open.length; start += PORTION) {
      const chats = open.slice(start, start + PORTION);
      const asked = await target.run({ ...task, chats }, (numDone, item) =>
        onProgress(numKnown + start + numDone, item),
      );
      for (const [index, { prompt: _, expected: __, ...result }] of asked.items.entries()) {
        memory.add({ id: idOf(chats[index]!), ...result });
      }
      seconds += asked.seconds;
    }
    const items = task.chats.map((chat) => ({
      prompt: chat.messages.slice(0, -1),
      expected: chat.messages.at(-1)!.content,
      ...memory.get(idOf(chat))!,
    }));
    return resultOf(task.name, items, seconds);
  };
  return { ...target, run };
}

function inProcess(): Memory {
  const results = new Map<string, Remembered>();
  return { get: (id) => results.get(id), add: ({ id, ...result }) => results.set(id, result) };
}
