/** How a prompt's hidden states become one vector: their mean, or the one of the first or last token. */
export const POOLINGS = ["mean", "last", "cls"] as const;
export type Pooling = (typeof POOLINGS)[number];

/** Activations between the layers of a head. */
export type HeadActivation = "none" | "tanh" | "gelu" | "relu";

/** A layer that follows the pooling: y = activation(x · weightᵀ + bias), or a LayerNorm. */
export type HeadLayer =
  | {
      readonly kind: "linear";
      /** Of the tensors `<name>.weight` and, if it is there, `<name>.bias`. */
      readonly name: string;
      readonly inputs: number;
      readonly outputs: number;
      readonly activation: HeadActivation;
      /** Rows of the weight, which is then a part of a larger matrix of `totalRows`. */
      readonly rows?: readonly number[];
      readonly totalRows?: number;
    }
  | { readonly kind: "norm"; readonly name: string; readonly width: number; readonly eps: number };

/** How a rank head's outputs become a score: as they are, by the sigmoid of the only one, or as the share of the last among two. */
export type HeadScoring = "raw" | "sigmoid" | "softmax";

/** What follows the pooling. */
export interface PooledHead {
  readonly layers: readonly HeadLayer[];
  /** Of rerankers; undefined: the outputs are an embedding. */
  readonly scoring: HeadScoring | undefined;
}

/** Names of the tensors that a head may have. */
export const headTensors = (head: PooledHead | undefined): readonly string[] =>
  (head?.layers ?? []).flatMap(({ name }) => [`${name}.weight`, `${name}.bias`]);
