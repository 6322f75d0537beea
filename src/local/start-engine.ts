/** Opens a model in this process: the engine in its thread, and the text processing beside it. */
import { MillraceError } from "../core/errors.js";
import { formatBytes, formatCount } from "../core/quantities.js";
import type { StartStage } from "../core/stages.js";
import type { Engine } from "../engine/api/engine.js";
import type { EngineOptions } from "../engine/api/options.js";
import { type LocatedModel, locateModel } from "../formats/locate-model.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { loadTextSide, type TextSide } from "../text/text-side.js";
import { type SamplingSource, samplingDefaultsFor } from "./sampling.js";

/** An engine's options before its model is found. */
export interface EngineSettings extends Omit<EngineOptions, "modelPath" | "kvCacheDtype"> {
  /** measured: the smallest type that hardly changes the model's predictions. */
  readonly kvCacheDtype: EngineOptions["kvCacheDtype"] | "measured";
}

export interface ModelSource extends SamplingSource {
  /** A path or hf:org/repo[:file]; absent: the bundled model. */
  readonly model?: string;
  /** A file that replaces the model's own template. */
  readonly chatTemplate?: string;
  readonly engine: EngineSettings;
}

export interface StartedEngine extends TextSide {
  readonly engine: Engine;
  readonly name: string;
  /** The model's file or folder. */
  readonly path: string;
  /** The weight files, in order. */
  readonly files: readonly string[];
  /** For requests without sampling fields. */
  readonly samplingDefaults: SamplingDefaults;
}

/** Throws gguf_tensor: every token needs both a text and an embedding. */
function assertSameVocabulary(numEmbeddings: number, numTokens: number): void {
  if (numEmbeddings === numTokens) return;
  throw new MillraceError(
    "gguf_tensor",
    `expected the embedding to have ${numTokens} rows, one for each token, got ${numEmbeddings}`,
    {
      hint: "The file was written by a broken converter; download or convert the model again.",
    },
  );
}

/** The options for a model, including its type of keys and values. */
export async function engineOptionsFor(
  settings: EngineSettings,
  { path, files }: Pick<LocatedModel, "path" | "files">,
  startStage: StartStage,
): Promise<EngineOptions> {
  const { kvCacheDtype } = settings;
  if (kvCacheDtype !== "measured") return { ...settings, kvCacheDtype, modelPath: path };
  const { measuredKvType } = await import("./measured-kv-type.js");
  const options = { ...settings, kvCacheDtype: "f16", modelPath: path } as const;
  return { ...options, kvCacheDtype: await measuredKvType(options, files, startStage) };
}

/** The engine loads in its own thread while this one reads the vocabulary. */
export async function startEngineWithText(source: ModelSource, startStage: StartStage): Promise<StartedEngine> {
  const { path, files, name } = await locateModel(source.model, startStage);
  const options = await engineOptionsFor(source.engine, { path, files }, startStage);
  const { startEngine } = await import("../engine/engine.js");
  const stage = startStage("engine");
  const starting = startEngine(
    options,
    ({ stage: text, fraction }) => {
      stage.update(fraction === undefined ? text : `${text} ${Math.round(fraction * 100)} %`);
    },
    (text) => stage.note(text),
  );
  // The engine may fail while the vocabulary is read, before its result is awaited.
  starting.catch(() => {});
  try {
    const textSide = await loadTextSide(path, source.chatTemplate);
    const samplingDefaults = samplingDefaultsFor(source, textSide.readSampling);
    const engine = await starting;
    assertSameVocabulary(engine.info.vocabSize, textSide.tokenizer.vocabSize);
    const { architecture, numParameters, weightBytes, weightType } = engine.info;
    stage.done(`${architecture}, ${formatCount(numParameters)} parameters, ${weightType}, ${formatBytes(weightBytes)}`);
    return { ...textSide, engine, name, path, files, samplingDefaults };
  } catch (thrown) {
    // After a tokenizer's error, the engine's thread must end, and its own failure must be handled.
    await starting.then(
      (engine) => engine.close(),
      () => {},
    );
    throw thrown;
  }
}
