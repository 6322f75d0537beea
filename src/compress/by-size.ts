/** Orders methods by the size that they give a model. */
import { createRowEncoder } from "../backend/create/create-backend.js";
import { asWritten } from "../convert/weights/delta-layers.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import { type ModelTensor, unstackedTensors } from "../convert/weights/tensors.js";
import { MillraceError } from "../core/errors.js";
import { rowByteLength, type WeightType } from "../formats/dequantize.js";
import { DTYPE_BITS } from "../formats/safetensors/types.js";
import type { OpenModel } from "../model/open-model.js";
import { isFolderMethod, type Layout } from "./folder-formats.js";
import { type Method, quantisedStorage } from "./storage.js";

/** Smallest first, without methods that save nothing or cannot store the model; equal ones keep their order. */
export function bySize(model: OpenModel, methods: readonly Method[], layout: Layout): readonly Method[] {
  const copy = asWritten(model, !methods.some(isFolderMethod));
  const all = tensorsOf(copy.config, copy.tensors());
  const tensors = all.filter(({ shape }) => shape.length === 2);
  // Vectors are F32 in every copy.
  const vectorBytes = all.reduce(
    (sum, { shape, count = 1 }) => sum + (shape.length === 1 ? 4 * count * shape[0] : 0),
    0,
  );
  const encoder = createRowEncoder(1);
  try {
    const sizes = methods.flatMap((method) => {
      const storage = quantisedStorage(method, copy, { encoder, importance: undefined }, layout);
      const numBytes = bytesIn(storage, tensors);
      return numBytes !== undefined && numBytes + vectorBytes < model.summary.weightBytes ? [{ method, numBytes }] : [];
    });
    return sizes.sort((a, b) => a.numBytes - b.numBytes).map(({ method }) => method);
  } finally {
    encoder.close();
  }
}

/** Bytes of the matrices in this storage; undefined if the method cannot store the shape of one. */
function bytesIn(storage: ReturnType<typeof quantisedStorage>, tensors: readonly ModelTensor[]): number | undefined {
  const plainBytes = (type: WeightType, { shape: [rows, cols] }: ModelTensor): number =>
    rows * rowByteLength(type, cols!)!;
  if ("typeOf" in storage)
    return tensors.reduce((sum, tensor) => sum + plainBytes(storage.typeOf(tensor) as WeightType, tensor), 0);
  const { plain, layers } = storage;
  try {
    return tensors.reduce((sum, tensor) => {
      if (layers?.takes(tensor) !== true) return sum + plainBytes(plain, tensor);
      const parts = unstackedTensors(tensor).flatMap(({ shape: [rows, cols] }) => layers.partsOf(rows, cols!));
      const bits = parts.map(({ type, shape }) => shape.reduce((product, size) => product * size, DTYPE_BITS[type]));
      return sum + bits.reduce((whole, each) => whole + each, 0) / 8;
    }, 0);
  } catch (thrown) {
    if (thrown instanceof MillraceError && thrown.code === "invalid_option") return undefined;
    throw thrown;
  }
}
