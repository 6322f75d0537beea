/** The facts about a well-known model that plans use. */
import type { ModelDescription } from "../../model/description/model-description.js";
import type { PlannedEngine } from "./engines.js";
import type { CallForm, ThoughtForm } from "./parsers.js";

export interface DraftHeads {
  readonly repo: string;
  /** Length in tokens of the heads' training sequences; undefined: unknown. */
  readonly trainedTokens?: number;
  /** The one engine that reads the heads' format; undefined: every engine that takes heads. */
  readonly onlyIn?: PlannedEngine;
}

export interface KnownModel extends ModelDescription {
  /** `model_type` of config.json, by which engines choose their code. */
  readonly modelType: string;
  /** A repository with the model's GGUF files. */
  readonly gguf?: string;
  /** The repository that engines fetch; its config.json is the source of the numbers. */
  readonly repo: string;
  /** Type of the published weights, if they are not in 16 bits. */
  readonly native?: "fp8" | "mxfp4";
  /** Published checkpoints of quantised weights, by our names of the types. */
  readonly checkpoints?: Readonly<Partial<Record<"fp8" | "int8" | "awq", string>>>;
  /** Published EAGLE-3 heads. */
  readonly eagle3?: DraftHeads;
  /** The form of the model's tool calls; undefined: it has no training for them, or its form is unknown here. */
  readonly toolCalls?: CallForm | undefined;
  /** The form of the model's thoughts before an answer; undefined: it has none. */
  readonly thoughts?: ThoughtForm | undefined;
  /** Family, by which plans suggest a smaller model. */
  readonly family: string;
  /** Parameters that the model card states. */
  readonly publishedParameters: number;
  readonly publishedActiveParameters?: number;
}
