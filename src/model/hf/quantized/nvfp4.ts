/**
 * NVFP4 layers: E2M1 codes, two columns a byte, an E4M3 scale for each 16 columns, and one F32 scale.
 * - compressed-tensors (`nvfp4-pack-quantized`): `weight_packed`, `weight_scale`, and `weight_global_scale`, by which
 *   scales are divided;
 * - ModelOpt: `weight`, `weight_scale`, and `weight_scale_2`, by which they are multiplied.
 */
import type { MatrixRows, MatrixSpec } from "../../../backend/tensor-source.js";
import { rowByteLength } from "../../../formats/dequantize.js";
import { writeNvfp4 } from "../../../formats/fp4-blocks.js";
import type { LayerTensors } from "./tensors.js";

/** Columns of a block of the kernels' type, and of a scale. */
const BLOCK = 64;
const GROUP = 16;
/** Codes in memory at a time. */
const TILE_VALUES = 1 << 22;

/** Names of the matrix's global scale. Beside other weight types, a reader that ignored it would read wrong weights. */
export const FP4_SCALES: ReadonlySet<string> = new Set(["weight_global_scale", "weight_scale_2"]);

/** Whether the layer's codes are those of FP4. */
export function hasFp4Codes(tensors: LayerTensors): boolean {
  return ["weight_packed", "weight"].some((part) => tensors.find(part)?.dtype === "U8");
}

/** Throws `model_tensor` where parts are missing or of another shape. */
export function nvfp4Rows(tensors: LayerTensors, { totalRows, cols, start, rows }: MatrixSpec): MatrixRows {
  const isPacked = tensors.find("weight_packed") !== undefined;
  const codes = tensors.get(isPacked ? "weight_packed" : "weight", ["U8"], [totalRows, Math.ceil(cols / 2)]);
  const scales = tensors.get("weight_scale", ["F8_E4M3"], [totalRows, Math.ceil(cols / GROUP)]);
  if (cols % BLOCK !== 0) throw tensors.refuse(`rows of ${tensors.layer} in whole blocks of ${BLOCK} values`, cols);
  const scale = isPacked ? 1 / singleOf(tensors, "weight_global_scale") : singleOf(tensors, "weight_scale_2");
  const rowBytes = rowByteLength("NVFP4_SCALED", cols)!;
  const convert = (target: ArrayBuffer) => {
    const perTile = Math.max(1, Math.floor(TILE_VALUES / cols));
    for (let row = 0; row < rows; row += perTile) {
      const count = Math.min(perTile, rows - row);
      const bytesOf = (tensor: typeof codes) => {
        const each = tensor.byteLength / totalRows;
        return tensors.bytes(tensor, (start + row) * each, count * each);
      };
      const groups = bytesOf(scales);
      const wrong = groups.find((code) => code >= NAN);
      if (wrong !== undefined) throw tensors.refuse(`${scales.name} of numbers from 0 to 448`, `the bits ${wrong}`);
      writeNvfp4(bytesOf(codes), groups, scale, new Uint8Array(target, row * rowBytes, count * rowBytes));
    }
  };
  return { type: "NVFP4_SCALED", convert };
}

/** The bits of E4M3's NaN; those of numbers below zero are larger. */
const NAN = 0x7f;

/** A positive number whose inverse is one too. */
function singleOf(tensors: LayerTensors, part: string): number {
  const isScalar = tensors.find(part)?.shape.length === 0;
  const tensor = tensors.get(part, ["F32"], isScalar ? [] : [1]);
  const value = tensors.floats(tensor)[0]!;
  if (value > 0 && Number.isFinite(Math.fround(1 / value))) return value;
  throw tensors.refuse(`a positive number in ${tensor.name}`, value);
}
