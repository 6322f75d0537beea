/** How a quantised copy stores its matrices. */
import type { BlockType } from "../backend/ops.js";
import { type FolderStorage, plainTypeOf, type Storage } from "../convert/weights/tensors.js";
import type { WeightType } from "../formats/dequantize.js";
import type { OpenModel } from "../model/open-model.js";
import { type Rounding, weightsOf } from "./error-feedback.js";
import { FOLDER_METHODS, type FolderMethod, isFolderMethod, type Layout, layerStorage } from "./folder-formats.js";
import { FILE_METHODS, type FileMethod, fileTypeOf, typeFor } from "./recipes.js";

/** A method that a user can name. */
export type Method = FileMethod | FolderMethod;
export const METHODS: readonly Method[] = [...FILE_METHODS, ...FOLDER_METHODS];

/** A method of a file: the recipe's types, encoded with the columns' importance. One of a folder: codes and scales of its layers. */
export function quantisedStorage(
  method: Method,
  { config, tensors, summary }: OpenModel,
  rounding: Rounding,
  layout: Layout = "compressed-tensors",
): Storage | FolderStorage {
  if (isFolderMethod(method)) {
    const widest = plainTypeOf(summary.weightType as WeightType | undefined);
    // AutoAWQ and GPTQ have their scales in halves.
    const plain = layout !== "compressed-tensors" ? "F16" : widest === "F32" ? "BF16" : widest;
    const layers = layerStorage(method, layout, plain, rounding);
    return { name: method, plain, ...preparationOf(rounding), layers };
  }
  const hasOutput = tensors().has("output.weight");
  return {
    name: method,
    fileType: fileTypeOf(method),
    typeOf: (tensor) => typeFor(method, tensor, hasOutput, config.layers.length),
    ...encodingOf(rounding),
  };
}

const preparationOf = ({ feedback }: Rounding): Pick<Storage, "preparation"> =>
  feedback === undefined ? {} : { preparation: feedback };

/** Encodes the blocks of a file. */
export function encodingOf(rounding: Rounding): Pick<Storage, "encode" | "preparation"> {
  const { encoder, feedback } = rounding;
  return {
    ...preparationOf(rounding),
    encode: (name, type, values, cols) =>
      encoder.encode(type as BlockType, values, cols, weightsOf(rounding, name, cols), feedback?.of(name)),
  };
}
