/**
 * Chooses the scales to move from a layer's inputs into its weights: among a few candidates, those with which rounding
 * the weights, and with SmoothQuant also the inputs, changes the products least.
 */
import type { TensorSource } from "../backend/tensor-source.js";
import { type ModelTensor, rowsOf } from "../convert/weights/tensors.js";
import { dequantizeRow } from "../formats/dequantize.js";
import { encodeValues } from "../formats/files/plain-values.js";
import { readRange } from "../model/description/read-rows.js";
import type { Channels } from "./channels.js";
import { weightsOfColumns } from "./importance.js";

export const SCALINGS = ["awq", "smoothquant"] as const;
export type Scaling = (typeof SCALINGS)[number];

/**
 * Rounds each value of a matrix's rows to the nearest: values and result f32 [rows, cols]; undefined: the matrix is not
 * quantised.
 * @param weights of the columns' squared errors
 */
export type RowsAfter = (
  tensor: ModelTensor,
) => ((values: Float32Array, cols: number, weights: Float32Array | undefined) => Float32Array) | undefined;

interface Reader {
  /** f32 [rows, cols] */
  readonly rows: Float32Array;
  /** Rows of the matrix for each sampled row. */
  readonly share: number;
  readonly after: NonNullable<ReturnType<RowsAfter>>;
}

/** Rows of each matrix on which candidates are judged: the side of a square of FP8_BLOCK. */
const SAMPLE_ROWS = 128;
const RATIOS = Array.from({ length: 11 }, (_, i) => i / 10);
/**
 * A candidate's error must be below this share of the error without scales: GPTQ's feedback hides smaller gains, or
 * turns them into losses.
 */
const WORTHWHILE = 0.9;
/** Most value of scales and of their inverses. */
const MOST = 1000;
/** Largest code of rounded inputs. */
const LARGEST_INT8 = 127;

interface SearchSettings {
  /** awq: only weights are rounded. smoothquant: inputs are too, to 8 bits with a scale per token. */
  readonly scaling: Scaling;
  readonly tensors: ReadonlyMap<string, ModelTensor>;
  readonly source: TensorSource;
  readonly rowsAfter: RowsAfter;
}

/**
 * @param squares mean squares of the input's columns, f64 [cols]
 * @returns scales of the channels, f32 [count]; undefined: no candidate is much better than no scales
 */
export function searchScales(
  channels: Channels,
  squares: Float64Array,
  settings: SearchSettings,
): Float32Array | undefined {
  const readers = readersOf(channels, settings);
  // The encoder refuses NaN and infinite weights.
  const areFinite = squares.every(Number.isFinite) && readers.every(({ rows }) => rows.every(Number.isFinite));
  if (readers.length === 0 || !areFinite) return undefined;
  const { maker, count } = channels;
  const gains = "norm" in maker ? settings.source.values(maker.norm, count) : undefined;
  const unscaled = errorOf(new Float32Array(count).fill(1), channels, squares, readers, settings.scaling);
  let best: Float32Array | undefined;
  let least = WORTHWHILE * unscaled;
  for (const candidate of candidatesOf(channels, squares, readers)) {
    const scales = gains === undefined ? candidate : exactIn(gains, candidate);
    const error = errorOf(scales, channels, squares, readers, settings.scaling);
    if (!(error < least)) continue;
    least = error;
    best = scales;
  }
  return best;
}

/**
 * Mean square error of the products from rounding, over all rows. Errors of two columns are independent, so products of
 * two columns' inputs drop out.
 */
function errorOf(
  scales: Float32Array,
  { cols, channelOf }: Channels,
  squares: Float64Array,
  readers: readonly Reader[],
  scaling: Scaling,
): number {
  const factors = Float32Array.from({ length: cols }, (_, col) => scales[channelOf(col)]!);
  const weights = weightsOfColumns(squares, factors);
  let error = 0;
  let squaredWeights = 0;
  for (const { rows, share, after } of readers) {
    const scaled = rows.map((value, at) => value * factors[at % cols]!);
    const rounded = after(scaled, cols, weights);
    for (let at = 0; at < rows.length; at++) {
      const col = at % cols;
      error += (share * squares[col]! * (scaled[at]! - rounded[at]!) ** 2) / factors[col]! ** 2;
      squaredWeights += share * scaled[at]! ** 2;
    }
  }
  // Rounding to multiples of a step has a mean square error of a twelfth of the step's square.
  return scaling === "awq" ? error : error + (squaredWeights * stepSquare(squares, factors)) / 12;
}

/** Mean square of the step for rounding a token's input, if columns vary independently about zero. */
function stepSquare(squares: Float64Array, factors: Float32Array): number {
  const scaled = squares.map((square, col) => square / factors[col]! ** 2);
  const largest = scaled.reduce((most, value) => Math.max(most, value), 0);
  if (largest === 0) return 0;
  // Equivalent number of columns as large as the largest; the largest of n normal values has a square of about 2 ln n.
  const alike = scaled.reduce((sum, value) => sum + value, 0) / largest;
  return (largest * (1 + 2 * Math.log(alike))) / LARGEST_INT8 ** 2;
}

/**
 * Powers of the inputs' magnitudes (AWQ), and such powers divided by the complementary powers of the weights' largest
 * (SmoothQuant).
 */
function* candidatesOf(
  { cols, count, channelOf }: Channels,
  squares: Float64Array,
  readers: readonly Reader[],
): Generator<Float32Array> {
  const inputs = new Float64Array(count);
  const weights = new Float64Array(count);
  for (let col = 0; col < cols; col++) {
    const channel = channelOf(col);
    inputs[channel] = Math.max(inputs[channel]!, Math.sqrt(squares[col]!));
  }
  for (const { rows } of readers) {
    for (let at = 0; at < rows.length; at++) {
      const channel = channelOf(at % cols);
      weights[channel] = Math.max(weights[channel]!, Math.abs(rows[at]!));
    }
  }
  for (const ratio of RATIOS) {
    if (ratio > 0) yield levelled(inputs.map((input) => input ** ratio));
    yield levelled(inputs.map((input, i) => input ** ratio / weights[i]! ** (1 - ratio)));
  }
}

const isUsable = (scale: number): boolean => scale > 0 && scale < Number.POSITIVE_INFINITY;

/** Scales with a geometric mean of one; channels that are zero on either side get one. */
function levelled(scales: Float64Array): Float32Array {
  const usable = scales.filter(isUsable);
  const mean = Math.exp(usable.reduce((sum, scale) => sum + Math.log(scale), 0) / Math.max(usable.length, 1));
  return Float32Array.from(scales, (scale) => (isUsable(scale) ? Math.min(Math.max(scale / mean, 1 / MOST), MOST) : 1));
}

/**
 * The nearest scales that turn a norm's gains into bfloat16 numbers, since other engines read gains in 16 bits.
 * @param gains [count]
 */
function exactIn(gains: Float32Array, scales: Float32Array): Float32Array {
  const divided = gains.map((gain, i) => gain / scales[i]!);
  const rounded = dequantizeRow("BF16", encodeValues("BF16", divided), divided.length);
  return scales.map((_, i) => {
    const scale = gains[i]! / rounded[i]!;
    return isUsable(scale) ? scale : 1;
  });
}

function readersOf({ readers }: Channels, { tensors, source, rowsAfter }: SearchSettings): readonly Reader[] {
  return readers.flatMap((name) => {
    const tensor = tensors.get(name);
    const after = tensor && rowsAfter(tensor);
    return tensor === undefined || after === undefined ? [] : [{ ...sampleOf(tensor, source), after }];
  });
}

/** Sample of rows spread over a matrix, or over a whole stack. */
function sampleOf(tensor: ModelTensor, source: TensorSource): Pick<Reader, "rows" | "share"> {
  const [numRows, cols] = tensor.shape as readonly [number, number];
  const count = Math.min(SAMPLE_ROWS, numRows);
  const rows = new Float32Array(count * cols);
  for (let i = 0; i < count; i++) {
    const row = Math.floor(((i + 0.5) * numRows) / count);
    rows.set(readRange(source, rowsOf(tensor, row, 1)), i * cols);
  }
  return { rows, share: numRows / count };
}
