/** A model in a plan: its description, the location of its weights and their type. */
import type { ModelDescription } from "../model/description/model-description.js";
import type { DraftHeads } from "./data/model-row.js";
import type { CallForm, ThoughtForm } from "./data/parsers.js";

/** Weights in a file, which engines use as they are. */
export interface StoredWeights {
  /** As the file says: Q4_0, BF16, … */
  readonly label: string;
  /** In memory; of a plan for another engine than ours, those of the file. */
  readonly weightBytes: number;
  /** In the file, where types with codebooks take fewer than in our engine's memory; absent: as many. */
  readonly fileBytes?: number | undefined;
  /** How many of these the embedding table takes; a step reads only rows of the table. */
  readonly embeddingBytes: number;
}

export interface PlannedModel extends ModelDescription {
  /** Where its numbers come from. */
  readonly source: string;
  /** Path or repository that an engine is told to load. */
  readonly location: string;
  /** The published weights are quantised already. */
  readonly native?: "fp8" | "mxfp4" | undefined;
  /** undefined: the weights are published in 16 bits, or as `native` says; engines may quantise them. */
  readonly stored?: StoredWeights | undefined;
  /** The measurement on these very weights, by a report, as a sentence without its full stop. */
  readonly measured?: string | undefined;
  /** `model_type` of its config.json; undefined: of a GGUF file. */
  readonly modelType?: string | undefined;
  /** Why the embedded engine refuses it; undefined: it computes it. */
  readonly embeddedRefusal?: string | undefined;
  /** Published checkpoints in other weight types, by our names of these. */
  readonly checkpoints: Readonly<Partial<Record<string, string>>>;
  /** Repository with GGUF files of it. */
  readonly gguf?: string | undefined;
  /** Published EAGLE-3 heads. */
  readonly eagle3?: DraftHeads | undefined;
  /** The form in which it writes tool calls; undefined: in none that is known here. */
  readonly toolCalls?: CallForm | undefined;
  /** The form of its thoughts before an answer; undefined: it has none, or none is known here. */
  readonly thoughts?: ThoughtForm | undefined;
  /** Family, for suggestions of a smaller one. */
  readonly family?: string | undefined;
}
