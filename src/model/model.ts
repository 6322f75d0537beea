/** A model whose headers were read, from a file of any format. */
import type { KernelDevice } from "../backend/cpu/kernels.js";
import type { TensorSource } from "../backend/tensor-source.js";
import type { ModelConfig } from "./config.js";

/** What is said about a model's weights, to people and in /v1/models. */
export interface WeightSummary {
  /** The type most weight bytes have. */
  readonly weightType: string;
  readonly numParameters: number;
  readonly weightBytes: number;
}

/** A model whose headers were read; its tensors are bound to a device when the engine asks for them. */
export interface OpenModel {
  readonly config: ModelConfig;
  readonly summary: WeightSummary;
  /** The files that the tensors' values depend on. */
  readonly files: readonly string[];
  tensorsFor(device: KernelDevice): TensorSource;
}
