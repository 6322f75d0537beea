/** Models to evaluate: in this process, behind a server, or as the recorded answers of an earlier evaluation. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { readText } from "../core/read-text.js";
import type { StartStage } from "../core/stages.js";
import { isHfFolder, textFilesOf } from "../formats/hf/folder.js";
import { askOf, type LocalSession, openLocalSession } from "../local/session.js";
import type { EngineSettings } from "../local/start-engine.js";
import { messageSchema, seedOf } from "../quality/ask.js";
import type { TextModel } from "../quality/harness/text-model.js";
import { openRemoteModel } from "../quality/remote-model.js";
import { type AskedModel, type ItemResult, resultOf, runTask, type TaskResult } from "../quality/run-task.js";
import type { EvalTask } from "../quality/tasks.js";
import { localTexts } from "./local-texts.js";

export interface EvalTarget {
  readonly name: string;
  /** Facts about the engine or the server, for the report. */
  readonly facts: object;
  /** JSON that differs between targets whose answers to a chat may differ. It leaves out the sampling settings. */
  readonly identity: object;
  /**
   * Answers the chats of one task and scores the answers.
   * @param onProgress called with the number of finished items, and with the item just finished if the model was asked
   *   for it
   */
  run(task: EvalTask, onProgress: (numDone: number, item?: ItemResult) => void): Promise<TaskResult>;
  /** The model for texts, and its concurrent requests. Absent: the answers are recorded. */
  readonly texts?: (() => Promise<{ readonly model: TextModel; readonly concurrency: number }>) | undefined;
  close(): Promise<void>;
}

export interface AnswerSettings {
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** Concurrent requests, for models behind a server. */
  readonly concurrency: number;
  readonly apiKey?: string | undefined;
}

export interface EvalSettings extends AnswerSettings {
  /** Settings of the engine, for models in this process. */
  readonly engine: EngineSettings;
  readonly chatTemplate?: string;
}

export type EvalSource =
  /** @param model absent: the bundled model */
  | { readonly kind: "local"; readonly model?: string }
  /** @param model the name in requests; absent: the first in the server's list */
  | { readonly kind: "server"; readonly url: string; readonly model?: string }
  | { readonly kind: "recorded"; readonly path: string };

/** @example sourceOf("http://127.0.0.1:8000").kind // "server" */
export function sourceOf(text: string): EvalSource {
  if (/^https?:\/\//.test(text)) return { kind: "server", url: text };
  return text.endsWith(".json") ? { kind: "recorded", path: text } : { kind: "local", model: text };
}

/** Throws the errors of opening a model, endpoint_failed, file_unreadable and invalid_option. */
export function openEvalTarget(
  source: EvalSource,
  settings: EvalSettings,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<EvalTarget> {
  switch (source.kind) {
    case "local":
      return openLocal(source, settings, startStage, signal);
    case "server":
      return openServerTarget(source, settings, signal);
    case "recorded":
      return Promise.resolve(openRecorded(source.path));
  }
}

async function openLocal(
  { model }: Extract<EvalSource, { kind: "local" }>,
  { temperature, maxTokens, seed, engine, chatTemplate }: EvalSettings,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<EvalTarget> {
  const sampling = { temperature, maxTokens, topP: 1, topK: 0, minP: 0, seed: BigInt(seed) };
  const source = {
    ...(model === undefined ? {} : { model }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    engine,
  };
  const session = await openLocalSession(source, sampling, startStage);
  try {
    // Texts need no chat template, which some models lack.
    let ask: AskedModel["ask"] | undefined;
    const asked = untilAborted(
      {
        ask: async (...question) => {
          ask ??= askOf(session, (messages) => seedOf(seed, messages));
          return await ask(...question);
        },
        texts: async () => localTexts(session, seed),
      },
      signal,
    );
    const facts = { engine: session.engine.info };
    const identity = identityOf(session, engine);
    return {
      name: session.name,
      facts,
      identity,
      ...runnersOf(asked, engine.maxNumSeqs),
      close: () => session.close(),
    };
  } catch (thrown) {
    await session.close();
    throw thrown;
  }
}

/** The model's files, its template, and the options that change answers. */
function identityOf({ path, files, engine, chatTemplate, samplingDefaults }: LocalSession, settings: EngineSettings) {
  const { kvEviction, activationDtype, kvCacheMemoryBytes } = settings;
  const { kvCacheDtype } = engine.info;
  const texts = isHfFolder(path) ? textFilesOf(path) : [];
  return {
    files: [...files, ...texts].map((file) => {
      const about = statSync(file, { throwIfNoEntry: false });
      return [resolve(file), about?.size, about?.mtimeMs];
    }),
    chatTemplate: chatTemplate?.source,
    samplingDefaults,
    maxModelLen: engine.info.maxModelLen,
    options: { kvCacheDtype, kvEviction, activationDtype, kvCacheMemoryBytes },
  };
}

/** Throws endpoint_failed. */
export async function openServerTarget(
  { url, model }: Pick<Extract<EvalSource, { kind: "server" }>, "url" | "model">,
  { temperature, maxTokens, seed, apiKey, concurrency }: AnswerSettings,
  signal: AbortSignal,
): Promise<EvalTarget> {
  const remote = await openRemoteModel({ url, model, apiKey, temperature, maxTokens, seed }, signal);
  const asked = untilAborted(remote, signal);
  const facts = { url };
  return { name: remote.name, facts, identity: facts, ...runnersOf(asked, concurrency), close: () => remote.close() };
}

/** The same model, with requests that also end when `signal` aborts. */
const untilAborted = ({ ask, texts }: Required<AskedModel>, signal: AbortSignal): Required<AskedModel> => {
  const both = (own: AbortSignal): AbortSignal => AbortSignal.any([own, signal]);
  return {
    ask: (messages, own, tools) => ask(messages, both(own), tools),
    texts: async () => {
      const model = await texts();
      return {
        ...model,
        score: (ids, numContext, own) => model.score(ids, numContext, both(own)),
        predict: (ids, numTop, own) => model.predict(ids, numTop, both(own)),
        continue: (ids, how, own) => model.continue(ids, how, both(own)),
      };
    },
  };
};

const runnersOf = (model: Required<AskedModel>, concurrency: number): Pick<EvalTarget, "run" | "texts"> => ({
  run: (task, onProgress) => runTask(model, task, concurrency, onProgress),
  texts: async () => ({ model: await model.texts(), concurrency }),
});

export const itemSchema = z.object({
  prompt: z.array(messageSchema),
  answer: z.string(),
  calls: z
    .array(z.object({ name: z.string(), arguments: z.string() }))
    .readonly()
    .optional(),
  expected: z.string(),
  score: z.number(),
  exact: z.boolean(),
  numPromptTokens: z.number(),
  numOutputTokens: z.number(),
  end: z.enum(["stop", "length", "refused"]),
  metrics: z.record(z.string(), z.union([z.number(), z.tuple([z.number(), z.number()]).readonly()])).optional(),
  logprobs: z.array(z.number()).readonly().optional(),
  filtered: z.record(z.string(), z.string()).optional(),
});
const reportSchema = z.object({
  model: z.object({ name: z.string() }),
  tasks: z.array(z.object({ task: z.string(), items: z.array(itemSchema) })),
});

/** Opens the answers of `millrace eval --json`. Items of other chats are left out. */
function openRecorded(path: string): EvalTarget {
  const report = readReport(path);
  const byTask = new Map(report.tasks.map(({ task, items }) => [task, items]));
  const run: EvalTarget["run"] = async ({ name, chats }, onProgress) => {
    const wanted = new Set(chats.map(({ messages }) => JSON.stringify(messages)));
    const items = (byTask.get(name) ?? []).filter(({ prompt, expected }) =>
      wanted.has(JSON.stringify([...prompt, { role: "assistant", content: expected }])),
    );
    onProgress(items.length);
    return resultOf(name, items, 0);
  };
  const facts = { recorded: path };
  return { name: report.model.name, facts, identity: facts, run, close: async () => {} };
}

function readReport(path: string): z.infer<typeof reportSchema> {
  const text = readText(path, "an evaluation");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The error below covers this case too.
  }
  const parsed = reportSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new MillraceError("invalid_option", `expected the report of an evaluation in ${path}, got something else`, {
    hint: "write one: millrace eval --json > before.json",
  });
}
