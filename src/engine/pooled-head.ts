/**
 * The layers behind the pooling: a reranker's classifier, or the last layers of an embedding model. They compute one
 * vector at a time, on the host and in double precision, so that a text's bits do not depend on others.
 */
import type { TensorSource } from "../backend/tensor-source.js";
import { MillraceError } from "../core/errors.js";
import type { HeadActivation, HeadDescription, HeadLayer, HeadScoring } from "../model/description/pooling.js";
import { readRows } from "../model/description/read-rows.js";

type Layer = (x: Float64Array) => Float64Array;

export class PooledHead {
  private constructor(
    private readonly layers: readonly Layer[],
    private readonly scoring: HeadScoring | undefined,
    /** Length of a result: of the embedding, or 1 for a score. */
    readonly width: number,
  ) {}

  /** Throws the source's errors. */
  static load({ layers, scoring }: HeadDescription, source: TensorSource): PooledHead {
    const numOutputs = layers.reduce((width, layer) => (layer.kind === "linear" ? layer.outputs : width), 0);
    const width = scoring === "softmax" ? 1 : numOutputs;
    return new PooledHead(
      layers.map((layer) => loadLayer(layer, source)),
      scoring,
      width,
    );
  }

  /** @param pooled [the model's width] @returns [width] */
  apply(pooled: Float64Array): Float64Array {
    return scored(
      this.layers.reduce((x, layer) => layer(x), pooled),
      this.scoring,
    );
  }
}

function scored(x: Float64Array, scoring: HeadScoring | undefined): Float64Array {
  if (scoring === "sigmoid") return x.map(sigmoid);
  // The softmax of two values is the sigmoid of their distance.
  if (scoring === "softmax") return Float64Array.of(sigmoid(x[1]! - x[0]!));
  return x;
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

function loadLayer(layer: HeadLayer, source: TensorSource): Layer {
  if (layer.kind === "norm") {
    const { name, width, eps } = layer;
    const gain = source.values(`${name}.weight`, width);
    const bias = source.has(`${name}.bias`) ? source.values(`${name}.bias`, width) : undefined;
    return (x) => layerNorm(x, gain, bias, eps);
  }
  const { name, inputs, outputs, activation, rows } = layer;
  const weight = readRows(source, `${name}.weight`, {
    rows: rows ?? outputs,
    totalRows: layer.totalRows ?? outputs,
    cols: inputs,
  });
  if (layer.isBiased === false && source.has(`${name}.bias`)) {
    throw new MillraceError(
      "model_tensor",
      `expected a layer ${name} without a bias, as its config.json says, got one`,
      {
        hint: "The folder's files do not belong together; download the model again.",
      },
    );
  }
  const isBiased = rows === undefined && (layer.isBiased ?? source.has(`${name}.bias`));
  const bias = isBiased ? source.values(`${name}.bias`, outputs) : undefined;
  const activate = ACTIVATIONS[activation];
  return (x) => {
    const out = new Float64Array(outputs);
    for (let row = 0; row < outputs; row++) {
      let sum = 0;
      for (let i = 0; i < inputs; i++) sum += weight[row * inputs + i]! * x[i]!;
      out[row] = activate(sum + (bias?.[row] ?? 0));
    }
    return out;
  };
}

function layerNorm(x: Float64Array, gain: Float32Array, bias: Float32Array | undefined, eps: number): Float64Array {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + eps);
  return x.map((value, i) => (value - mean) * scale * gain[i]! + (bias?.[i] ?? 0));
}

const ACTIVATIONS: Readonly<Record<HeadActivation, (x: number) => number>> = {
  none: (x) => x,
  tanh: Math.tanh,
  relu: (x) => Math.max(0, x),
  gelu: (x) => x * normalShare(x),
};

/** The share of the normal distribution below `x`: a series near zero, a continued fraction of the tail beyond. */
function normalShare(x: number): number {
  const a = Math.abs(x);
  const density = Math.exp(-a * a * 0.5) / Math.sqrt(2 * Math.PI);
  let tail = 0;
  if (a > 3) {
    let fraction = a;
    for (let k = 60; k >= 1; k--) fraction = a + k / fraction;
    tail = density / fraction;
  } else {
    let [term, sum] = [a, a];
    for (let k = 1; k < 60; k++) {
      term *= (a * a) / (2 * k + 1);
      sum += term;
    }
    tail = 0.5 - density * sum;
  }
  return x < 0 ? tail : 1 - tail;
}
