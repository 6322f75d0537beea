/** A model whose headers were read, from a file of any format. */
import type { TensorSource } from "../backend/tensor-source.js";
import type { ModelConfig } from "./config.js";

/** What is said about a model's weights, to people and in /v1/models. */
export interface WeightSummary {
  /** The type most weight bytes have. */
  readonly weightType: string;
  readonly numParameters: number;
  readonly weightBytes: number;
}

/** A model whose headers were read; its tensors are looked for when the engine asks for them. */
export interface OpenModel {
  readonly config: ModelConfig;
  readonly summary: WeightSummary;
  /** The files that the tensors' values depend on. */
  readonly files: readonly string[];
  /** Throws where the weights are stored in a way that is not read. */
  tensors(): TensorSource;
}
