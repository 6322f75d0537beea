/** The facts about a well-known model that plans use. */
import type { ModelDescription } from "../../model/description/model-description.js";
import type { PlannedEngine } from "./engines.js";
import type { CallForm, ThoughtForm } from "./parsers.js";

export interface DraftHeads {
  readonly repo: string;
  /** Tokens of the sequences that they were trained on; undefined: not known here. */
  readonly trainedTokens?: number;
  /** The one engine that reads their format; undefined: all that take heads. */
  readonly onlyIn?: PlannedEngine;
}

export interface KnownModel extends ModelDescription {
  /** As its config.json says: engines choose their code by it. */
  readonly modelType: string;
  /** A repository with GGUF files of it. */
  readonly gguf?: string;
  /** The repository that an engine fetches; its config.json is the source of the numbers. */
  readonly repo: string;
  /** How the published weights are stored, where not in 16 bits. */
  readonly native?: "fp8" | "mxfp4";
  /** Published checkpoints that are quantised already, by our names. */
  readonly checkpoints?: Readonly<Partial<Record<"fp8" | "int8" | "awq", string>>>;
  /** Published EAGLE-3 heads. */
  readonly eagle3?: DraftHeads;
  /** The form in which it writes tool calls; undefined: it was not trained to, or in none that is known here. */
  readonly toolCalls?: CallForm | undefined;
  /** The form of its thoughts before an answer; undefined: it has none. */
  readonly thoughts?: ThoughtForm | undefined;
  /** Family, for suggestions of a smaller one. */
  readonly family: string;
  /** As the model card states them. */
  readonly publishedParameters: number;
  readonly publishedActiveParameters?: number;
}
