/** The table of positions of a GGUF file, whose rows bound the length of texts. */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { type Architecture, factsOf } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import type { PositionTable } from "../description/servable.js";
import { missingTensor } from "./pooling.js";

/** @throws gguf_tensor where the architecture has one and the file none */
export function positionsOf(
  gguf: GgufFile,
  architecture: Architecture,
  contextLength: number,
): { readonly contextLength: number; readonly positionTable: PositionTable | undefined } {
  if (!factsOf(architecture).hasPositionTable) return { contextLength, positionTable: undefined };
  const numRows = rowsOf(gguf, "position_embd.weight", MODEL_LIMITS.context);
  if (numRows === undefined) throw missingTensor("position_embd.weight");
  return { contextLength: Math.min(contextLength, numRows), positionTable: { numRows, firstRow: 0 } };
}

/** Rows of a matrix; undefined: there is none. */
export function rowsOf({ tensors }: GgufFile, name: string, max: number): number | undefined {
  const tensor = tensors.get(name);
  if (tensor === undefined) return undefined;
  const numRows = tensor.shape[1] ?? 1;
  if (numRows <= max) return numRows;
  throw new MillraceError("gguf_tensor", `expected at most ${max} rows of ${name}, got ${numRows}`);
}
