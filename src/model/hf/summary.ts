/** What a folder's tensors amount to, for people: types, parameters, bytes. */
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";
import { mostOf } from "../gguf-source.js";
import type { WeightSummary } from "../model.js";

export interface StoredTensor {
  readonly type: string;
  readonly numParameters: number;
  readonly byteLength: number;
}

/** Eight weights of four bits in each word; the others' elements are weights, scales counted as such. */
const WEIGHTS_PER_WORD = 8;
const PACKED_NAME = /\.(?:qweight|weight_packed)$/;

export function storedTensors(tensors: Iterable<SafetensorsTensor>): StoredTensor[] {
  return Array.from(tensors, ({ name, dtype, shape, byteLength }) => {
    const numElements = shape.reduce((product, size) => product * size, 1);
    const numParameters = PACKED_NAME.test(name) ? WEIGHTS_PER_WORD * numElements : numElements;
    return { type: PACKED_NAME.test(name) ? "4 bit" : dtype, numParameters, byteLength };
  });
}

export function summarizeHf(tensors: Iterable<SafetensorsTensor>): WeightSummary {
  const stored = storedTensors(tensors);
  const bytesByType = new Map<string, number>();
  for (const { type, byteLength } of stored) bytesByType.set(type, (bytesByType.get(type) ?? 0) + byteLength);
  const sumOf = (key: "numParameters" | "byteLength") => stored.reduce((sum, tensor) => sum + tensor[key], 0);
  return { weightType: mostOf(bytesByType), numParameters: sumOf("numParameters"), weightBytes: sumOf("byteLength") };
}
