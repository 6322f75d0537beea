/** A quantised copy's storage of its matrices. */
import type { RowEncoder } from "../backend/backend.js";
import type { BlockType } from "../backend/ops.js";
import { type FolderStorage, isPlain, plainTypeOf, type Storage } from "../convert/weights/tensors.js";
import { dequantizeRow, type WeightType } from "../formats/dequantize.js";
import type { PlainType } from "../formats/files/plain-values.js";
import type { OpenModel } from "../model/open-model.js";
import { type Rounding, weightsOf } from "./error-feedback.js";
import {
  FOLDER_METHODS,
  type FolderMethod,
  isFolderMethod,
  type Layout,
  layerStorage,
  roundedAs,
  takesLayer,
} from "./folder-formats.js";
import { FusedMatrices } from "./fused-matrices.js";
import { FILE_METHODS, type FileMethod, fileTypeOf, typeFor } from "./recipes.js";
import type { RowsAfter } from "./scale-search.js";

/** A method that a user can name. */
export type Method = FileMethod | FolderMethod;
export const METHODS: readonly Method[] = [...FILE_METHODS, ...FOLDER_METHODS];

/**
 * For a file method: the recipe's types, encoded with the columns' importance. For a folder method: codes and scales of
 * its layers.
 */
export function quantisedStorage(
  method: Method,
  model: OpenModel,
  rounding: Rounding,
  layout: Layout = "compressed-tensors",
): Storage | FolderStorage {
  if (isFolderMethod(method)) {
    const plain = plainIn(layout, model);
    const layers = layerStorage(method, layout, plain, rounding, new FusedMatrices(model));
    return { name: method, plain, ...preparationOf(rounding), layers };
  }
  const { config, tensors } = model;
  const hasOutput = tensors().has("output.weight");
  return {
    name: method,
    fileType: fileTypeOf(method),
    typeOf: (tensor) => typeFor(method, tensor, hasOutput, config.layers.length),
    ...encodingOf(rounding),
  };
}

function plainIn(layout: Layout, { summary }: OpenModel): PlainType {
  // AutoAWQ and GPTQ store scales as halves.
  if (layout !== "compressed-tensors") return "F16";
  const widest = plainTypeOf(summary.weightType as WeightType | undefined);
  return widest === "F32" ? "BF16" : widest;
}

/** Encodes rows by a method. */
export function rowsAfter(method: Method, model: OpenModel, encoder: RowEncoder, layout: Layout): RowsAfter {
  if (!isFolderMethod(method))
    return rowsInTypes(quantisedStorage(method, model, { encoder, importance: undefined }) as Storage, encoder);
  const plain = plainIn(layout, model);
  return (tensor) =>
    takesLayer(method, tensor)
      ? (values, cols, weights) => roundedAs(method, plain, values, cols, { encoder, weights })
      : undefined;
}

/** Encodes rows in a file's types. */
export const rowsInTypes =
  ({ typeOf }: Pick<Storage, "typeOf">, encoder: RowEncoder): RowsAfter =>
  (tensor) => {
    const type = typeOf(tensor);
    if (isPlain(type)) return undefined;
    return (values, cols, weights) =>
      dequantizeRow(type as BlockType, encoder.encode(type as BlockType, values, cols, weights), values.length);
  };

function preparationOf({ feedback, mover }: Rounding): Pick<Storage, "preparation"> {
  const preparation = feedback ?? mover;
  return preparation === undefined ? {} : { preparation };
}

/** Encodes a file's blocks. */
export function encodingOf(rounding: Rounding): Pick<Storage, "encode" | "preparation"> {
  const { encoder, feedback } = rounding;
  return {
    ...preparationOf(rounding),
    encode: (name, type, values, cols) =>
      encoder.encode(type as BlockType, values, cols, weightsOf(rounding, name, cols), feedback?.of(name)),
  };
}
