/** From a model's name to a running engine with its text side, stage by stage. */
import { MillraceError } from "../core/errors.js";
import type { Engine } from "../engine/api/engine.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { type EngineFlags, engineOptionsFrom } from "./engine-options.js";
import { formatBytes, formatCount } from "./format.js";
import { type GenerationConfigFlags, samplingDefaultsFor } from "./generation-config.js";
import { loadTextSide, locateModel, type TextSide } from "./model.js";
import type { StartStage } from "./stages.js";

export interface EngineSource extends EngineFlags, GenerationConfigFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
}

export interface StartedEngine extends TextSide {
  readonly engine: Engine;
  readonly name: string;
  /** Where the model was found: a file, or a folder. */
  readonly path: string;
  /** Of requests that say nothing. */
  readonly samplingDefaults: SamplingDefaults;
}

/** A token the model chooses must have a text, and a text's tokens an embedding. */
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

/** The engine loads in its own thread while this one reads the vocabulary. */
export async function startEngineWithText(source: EngineSource, startStage: StartStage): Promise<StartedEngine> {
  const { path, name } = await locateModel(source.model, startStage);
  const { startEngine } = await import("../engine/engine.js");
  const stage = startStage("engine");
  const starting = startEngine(
    engineOptionsFrom(source, path),
    ({ stage: text, fraction }) => {
      stage.update(fraction === undefined ? text : `${text} ${Math.round(fraction * 100)} %`);
    },
    (text) => stage.note(text),
  );
  // It may fail while the vocabulary is being read, before anyone waits for it.
  starting.catch(() => {});
  try {
    const textSide = await loadTextSide(path, source.chatTemplate);
    const samplingDefaults = samplingDefaultsFor(source, textSide.readSampling);
    const engine = await starting;
    assertSameVocabulary(engine.info.vocabSize, textSide.tokenizer.vocabSize);
    const { architecture, numParameters, weightBytes, weightType } = engine.info;
    stage.done(`${architecture}, ${formatCount(numParameters)} parameters, ${weightType}, ${formatBytes(weightBytes)}`);
    return { ...textSide, engine, name, path, samplingDefaults };
  } catch (thrown) {
    // A file the tokenizer refuses must not leave the engine's thread running, nor its own failure unheard.
    await starting.then(
      (engine) => engine.close(),
      () => {},
    );
    throw thrown;
  }
}
