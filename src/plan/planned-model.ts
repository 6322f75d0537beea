/** A model in a plan: its description, the location of its weights and their type. */
import type { ModelDescription } from "../model/description/model-description.js";
import type { DraftHeads } from "./data/model-row.js";
import type { CallForm, ThoughtForm } from "./data/parsers.js";

/** Weights in a file, which engines use unchanged. */
export interface StoredWeights {
  /** The type as the file names it: Q4_0, BF16, … */
  readonly label: string;
  /** Bytes in memory; in a plan for another engine, bytes of the file. */
  readonly weightBytes: number;
  /**
   * Bytes in the file, where types with codebooks take fewer than in our engine's memory; absent: the same as
   * `weightBytes`.
   */
  readonly fileBytes?: number | undefined;
  /** Bytes of the embedding table among these; a step reads only rows of the table. */
  readonly embeddingBytes: number;
}

export interface PlannedModel extends ModelDescription {
  /** Source of the model's numbers. */
  readonly source: string;
  /** Path or repository that the engine loads. */
  readonly location: string;
  /** The type of published weights that are quantised already. */
  readonly native?: "fp8" | "mxfp4" | undefined;
  /** undefined: the weights are published in 16 bits, or as `native` says; engines may quantise them. */
  readonly stored?: StoredWeights | undefined;
  /** Result of a report on these very weights, as a sentence without its full stop. */
  readonly measured?: string | undefined;
  /** `model_type` of config.json; undefined for a GGUF file. */
  readonly modelType?: string | undefined;
  /** The reason why the embedded engine refuses the model; undefined: it runs the model. */
  readonly embeddedRefusal?: string | undefined;
  /** Published checkpoints in other weight types, by our names of the types. */
  readonly checkpoints: Readonly<Partial<Record<string, string>>>;
  /** Repository with the model's GGUF files. */
  readonly gguf?: string | undefined;
  /** Published EAGLE-3 heads. */
  readonly eagle3?: DraftHeads | undefined;
  /** The form of the model's tool calls; undefined: it is unknown here. */
  readonly toolCalls?: CallForm | undefined;
  /** The form of the model's thoughts before an answer; undefined: it has none, or their form is unknown here. */
  readonly thoughts?: ThoughtForm | undefined;
  /** Family, by which plans suggest a smaller model. */
  readonly family?: string | undefined;
}
