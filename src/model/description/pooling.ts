/** How a prompt's hidden states become one vector: their mean, or the one of the first or last token. */
export const POOLINGS = ["mean", "last", "cls"] as const;
export type Pooling = (typeof POOLINGS)[number];

/** Activations between the layers of a head. */
export type HeadActivation = "none" | "tanh" | "gelu" | "relu";

/** A layer that follows the pooling: y = activation(x · weightᵀ + bias), or a LayerNorm. */
export type HeadLayer = LinearLayer | NormLayer;

interface LinearLayer {
  readonly kind: "linear";
  /** Common part of the tensors' names `<name>.weight` and, if it is there, `<name>.bias`. */
  readonly name: string;
  readonly inputs: number;
  readonly outputs: number;
  readonly activation: HeadActivation;
  /** Whether there is a bias; absent: as the tensors say. */
  readonly isBiased?: boolean;
  /** Numbers of the rows, where the weight is a part of a larger matrix of `totalRows`; such a part has no bias. */
  readonly rows?: readonly number[];
  readonly totalRows?: number;
}

interface NormLayer {
  readonly kind: "norm";
  readonly name: string;
  readonly width: number;
  readonly eps: number;
}

export const linearLayer = (
  name: string,
  inputs: number,
  outputs: number,
  activation: HeadActivation = "none",
): LinearLayer => ({ kind: "linear", name, inputs, outputs, activation });

/**
 * How a rank head's outputs become a score: as they are, by the sigmoid of the only one, or as the softmax of two, of
 * which it is the second.
 */
export type HeadScoring = "raw" | "sigmoid" | "softmax";

/** The layers between the pooled hidden state and the vector or score that a request gets. */
export interface HeadDescription {
  readonly layers: readonly HeadLayer[];
  /** How rerankers score; undefined: the outputs are an embedding. */
  readonly scoring: HeadScoring | undefined;
}

/** Names of the tensors that a head may have. */
export const headTensors = (head: HeadDescription | undefined): readonly string[] =>
  (head?.layers ?? []).flatMap(({ name }) => [`${name}.weight`, `${name}.bias`]);
