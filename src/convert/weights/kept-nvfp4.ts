/**
 * Keeps matrices of NVFP4 in copies: both formats have the type, with a scale of the whole matrix beside the blocks.
 */
import type { WeightType } from "../../formats/dequantize.js";
import { readNvfp4 } from "../../formats/fp4-blocks.js";
import type { OpenModel } from "../../model/open-model.js";
import { nvfp4Config, nvfp4Parts } from "./compressed-tensors.js";
import { tensorsOf } from "./model-tensors.js";
import {
  bytesOf,
  type FolderStorage,
  type ModelTensor,
  plainStorage,
  plainTypeOf,
  rowsOf,
  type Storage,
  storedBytes,
  unstackedTensors,
  type ValueSource,
} from "./tensors.js";

/** llama.cpp's `general.file_type`. */
const NVFP4_FILE = 39;

/** The types with the least loss: NVFP4 where a matrix has it, else a plain type. */
export function keptStorage(model: OpenModel): Storage & FolderStorage {
  const plain = plainTypeOf(model.summary.weightType as WeightType | undefined);
  const usual = { ...plainStorage(plain), plain };
  const source = model.tensors();
  // An expert's matrix has its stack's name, and all matrices of a stack have one type.
  const byName = new Map(tensorsOf(model.config, source).map((tensor) => [tensor.name, scalesOf(source, tensor)]));
  if ([...byName.values()].every((scales) => scales === undefined)) return usual;
  // In a file of such a model, the tensor for the matrix's scale would be read as the experts' factor.
  const isAmbiguous = ({ name }: ModelTensor) => model.config.hasDenseBesideExperts && DOWN.test(name);
  const isKeptInFile = (tensor: ModelTensor): boolean =>
    !isAmbiguous(tensor) &&
    byName.get(tensor.name)?.every((scale) => Number.isFinite(scale) && (scale === 1 || LINEAR.test(tensor.name))) ===
      true;
  const isKeptInFolder = (tensor: ModelTensor): boolean =>
    LINEAR.test(tensor.name) && byName.get(tensor.name)?.every((scale) => divisorOf(scale) !== undefined) === true;
  return {
    ...usual,
    name: `NVFP4 and ${plain}`,
    fileType: NVFP4_FILE,
    typeOf: (tensor) => (isKeptInFile(tensor) ? "NVFP4" : plain),
    layers: { takes: isKeptInFolder, partsOf: nvfp4Parts, encode: storedParts, configOf: nvfp4Config },
  };
}

const DOWN = /\.ffn_down_exps\.weight$/;
/** Linear layers of a model's blocks, except routers and gates, which stay plain in every copy. */
const LINEAR = /^blk\.\d+\.(?!ffn_gate_inp)\w+\.weight$/;

/** Scales of whole matrices, one per matrix of a stack. @returns undefined: the tensor has another type */
export function scalesOf(source: ValueSource, tensor: ModelTensor): Float32Array | undefined {
  const { shape, stack } = tensor;
  const [rows, cols] = shape;
  if (cols === undefined) return undefined;
  const scales: number[] = [];
  for (const own of stack?.totalRows === rows ? unstackedTensors(tensor) : [tensor]) {
    const stored = source.matrix(rowsOf(own, own.stack?.start ?? 0, 1));
    if (stored.type !== "NVFP4" && stored.type !== "NVFP4_SCALED") return undefined;
    const { buffer, byteOffset } = storedBytes(stored, 1, cols);
    scales.push(stored.type === "NVFP4" ? 1 : new DataView(buffer, byteOffset).getFloat32(0, true));
  }
  return Float32Array.from(scales);
}

/** The parts of a folder's layer with the codes and scales of a matrix. */
function storedParts(source: ValueSource, tensor: ModelTensor): readonly Uint8Array[] {
  const [scale] = scalesOf(source, tensor)!;
  const { codes, scales } = readNvfp4(Buffer.concat([...bytesOf(source, tensor, "NVFP4")]));
  return [codes, scales, new Uint8Array(Float32Array.of(divisorOf(scale!)!).buffer)];
}

/**
 * The divisor that folders store instead of a scale: the F32 whose inverse is the scale, or nearest to it.
 * @returns undefined: there is none, or the scale is no positive number
 */
function divisorOf(scale: number): number | undefined {
  const nearest = Math.fround(1 / scale);
  const neighbours = [nearest, Math.fround(nearest * (1 + 2 ** -23)), Math.fround(nearest * (1 - 2 ** -23))];
  const best = neighbours.find((each) => Math.fround(1 / each) === scale) ?? nearest;
  return scale > 0 && Number.isFinite(best) && Number.isFinite(Math.fround(1 / best)) ? best : undefined;
}
