/** What a random model is made of: what callers may choose, and the sizes that follow. */
import type { TensorType } from "../../src/formats/gguf/types.js";
import type { WritableValue } from "../../src/formats/gguf/write.js";
import type { DecoderArchitecture } from "../../src/model/description/architectures.js";

export type RandomArchitecture = Exclude<DecoderArchitecture, "mistral">;

export interface RandomModelOptions {
  readonly architecture: RandomArchitecture;
  readonly seed: number;
  /** Behind the layers: 1 drafts, of the models that may have such layers (multi-token prediction). None. */
  readonly draftLayers?: number;
  /** 2; gemma3: 6, smollm3, olmo2 and exaone4: 4, of which the last attends to everything, or has no rope. */
  readonly layers?: number;
  /** 128; a multiple of 32 for quantised types, as are ff and heads x headDim. */
  readonly width?: number;
  /** 4. */
  readonly heads?: number;
  /** 2. */
  readonly kvHeads?: number;
  /** width / heads; qwen3: 48, so that head size and width are seen to be separate. */
  readonly headDim?: number;
  /** 256. */
  readonly ff?: number;
  /** Of `ff` each. None; qwen3moe, gpt-oss and glm4moe: 3 of 8. */
  readonly experts?: { readonly count: number; readonly active: number };
  /** stacked; in one tensor for each expert; gate and up fused. */
  readonly expertLayout?: "stacked" | "apart" | "fused";
  /** For deepseek2: each layer has the matrices of latent keys and values in one, as older files do. */
  readonly joinsLatents?: boolean;
  /** For gemma4: the last two layers read the keys of others, and layers have inputs of their own. */
  readonly sharesKeys?: boolean;
  /** 384; at least 300. */
  readonly vocab?: number;
  /** 512. */
  readonly contextLength?: number;
  /** F32. Norms and biases are always F32. Types that cannot be encoded get random blocks. */
  readonly type?: TensorType;
  /** Of the feed-forward parts' last matrices, whose rows may be too short for `type`: as `type`. */
  readonly downType?: TensorType;
  /** Stores the values of the type's blocks as F32: what a model of that type must compute. */
  readonly isDequantised?: boolean;
  /** For NVFP4: layers' matrices have scales beside them, or in their values. */
  readonly hasMatrixScales?: boolean;
  /** 0: the file does not say. */
  readonly poolingType?: number;
  /** Texts that are one token each: special ones, or ordinary text. */
  readonly markers?: { readonly texts: readonly string[]; readonly areSpecial: boolean };
  /** Further entries of the metadata. */
  readonly metadata?: Readonly<Record<string, WritableValue>>;
}

export type Dimensions = Required<Omit<RandomModelOptions, "downType">> & Pick<RandomModelOptions, "downType">;
