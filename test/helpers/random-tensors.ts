/** Tensors of random values, each from a stream of its own. */
import { dequantizeRow } from "../../src/formats/dequantize.js";
import type { TensorType } from "../../src/formats/gguf/types.js";
import type { WritableTensor } from "../../src/formats/gguf/write.js";
import { encodeValues, isWritable, randomBlocks } from "./tensor-bytes.js";

/** Sharper than a trained model's initialisation, so that greedy outputs vary and errors show. */
const SHARPNESS = 1.5;
const MAX_PIECE_VALUES = 1024 * 1024;

interface TensorOptions {
  readonly type: TensorType;
  readonly downType?: TensorType | undefined;
  readonly seed: number;
  readonly isDequantised: boolean;
}

export class TensorFactory {
  readonly #type: TensorType;
  readonly #downType: TensorType;
  readonly #isDequantised: boolean;
  /** Every tensor has a stream of its own, so that its values depend on nothing before it. */
  #nextStream: number;

  constructor({ type, downType = type, seed, isDequantised }: TensorOptions) {
    this.#type = type;
    this.#downType = downType;
    this.#isDequantised = isDequantised;
    this.#nextStream = Math.imul(seed, 0x9e37_79b1) >>> 0;
  }

  /** @param count of matrices in one tensor; 0: it is no stack */
  matrix(name: string, numColumns: number, numRows: number, count = 0, gain = 1): WritableTensor {
    const shape = count === 0 ? [numColumns, numRows] : [numColumns, numRows, count];
    const type = name.includes("ffn_down") ? this.#downType : this.#type;
    return this.#tensor(name, type, shape, 0, (gain * SHARPNESS) / Math.sqrt(numColumns));
  }

  router(name: string, numColumns: number, numRows: number): WritableTensor {
    return this.#tensor(name, "F32", [numColumns, numRows], 0, SHARPNESS / Math.sqrt(numColumns));
  }

  gate(name: string, numValues: number): WritableTensor {
    return this.#tensor(name, "F32", [numValues], 0, SHARPNESS / Math.sqrt(numValues));
  }

  taps(name: string, numTaps: number, numColumns: number): WritableTensor {
    return this.#tensor(name, "F32", [numTaps, numColumns], 0, SHARPNESS / Math.sqrt(numTaps));
  }

  /** Negative, so that states fade. */
  decay(name: string, numValues: number): WritableTensor {
    return this.#tensor(name, "F32", [numValues], -0.4, 0.1);
  }

  norm(name: string, numValues: number): WritableTensor {
    return this.#tensor(name, "F32", [numValues], 1, 0.1);
  }

  /** @param count of vectors in one tensor; 0: it is one */
  bias(name: string, numValues: number, count = 0): WritableTensor {
    return this.#tensor(name, "F32", count === 0 ? [numValues] : [numValues, count], 0, 0.2);
  }

  #tensor(name: string, type: TensorType, shape: readonly number[], mean: number, deviation: number): WritableTensor {
    this.#nextStream = (this.#nextStream + 0x6d2b_79f5) >>> 0;
    const stream = this.#nextStream;
    const numValues = shape.reduce((product, dimension) => product * dimension, 1);
    const pieces = () => randomPieces(type, numValues, stream, mean, deviation);
    if (!this.#isDequantised) return { name, type, shape, data: pieces };
    return { name, type: "F32", shape, data: () => dequantised(type, numValues, pieces()) };
  }
}

/** Piece by piece: a model of a billion weights must not lie in memory. */
function* randomPieces(
  type: TensorType,
  numValues: number,
  stream: number,
  mean: number,
  deviation: number,
): Generator<Uint8Array> {
  // The sum of two uniform variables in [-1, 1) has variance 2/3.
  const scale = deviation * Math.sqrt(1.5);
  let state = stream;
  const nextBits = () => {
    state = (state + 0x9e37_79b9) | 0;
    return mix(state);
  };
  for (let first = 0; first < numValues; first += MAX_PIECE_VALUES) {
    const pieceValues = Math.min(MAX_PIECE_VALUES, numValues - first);
    if (!isWritable(type)) {
      yield randomBlocks(type, pieceValues, nextBits, deviation);
      continue;
    }
    const values = new Float32Array(pieceValues);
    for (let index = 0; index < values.length; index += 1) {
      const bits = nextBits();
      values[index] = mean + scale * (((bits & 0xffff) + (bits >>> 16)) / 0x8000 - 2);
    }
    yield encodeValues(type, values);
  }
}

function* dequantised(type: TensorType, numValues: number, pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  let first = 0;
  for (const piece of pieces) {
    const values = dequantizeRow(type, piece, Math.min(MAX_PIECE_VALUES, numValues - first));
    first += values.length;
    yield encodeValues("F32", values);
  }
}

/** The finaliser of MurmurHash3: every input bit reaches every output bit. */
function mix(state: number): number {
  let bits = state;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
