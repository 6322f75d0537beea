/** How a quantised copy stores its matrices: the recipe's types, encoded with the columns' importance. */
import type { RowEncoder } from "../backend/backend.js";
import type { BlockType } from "../backend/ops.js";
import type { Storage } from "../convert/weights/tensors.js";
import type { OpenModel } from "../model/open-model.js";
import type { Importance } from "./importance.js";
import { fileTypeOf, type Method, typeFor } from "./recipes.js";

export function quantisedStorage(
  method: Method,
  { config, tensors }: OpenModel,
  importance: Importance | undefined,
  encoder: RowEncoder,
): Storage {
  const hasOutput = tensors().has("output.weight");
  return {
    name: method,
    fileType: fileTypeOf(method),
    typeOf: (tensor) => typeFor(method, tensor, hasOutput, config.layers.length),
    encode: (name, type, values, cols) => encoder.encode(type as BlockType, values, cols, importance?.of(name, cols)),
  };
}
