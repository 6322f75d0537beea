/**
 * Reads experts from folders that keep all of a layer's in one tensor (gpt-oss, nomic): plain numbers, transposed, of
 * which each expert's may lie below the one before in a matrix; or MXFP4, with codes and scales in two tensors. Rows of
 * gate and up alternate in one tensor. The result is laid out as in GGUF files, without loss: each expert's matrices in
 * rows, and each MXFP4 block with its scale in front.
 */
import type { MatrixRows, MatrixSpec } from "../../backend/tensor-source.js";
import { interleaveCodes } from "../../formats/fp4-blocks.js";
import type { StackedPart } from "./names.js";
import type { LayerTensors } from "./quantized/tensors.js";

const FLOATS = ["F32", "F16", "BF16"] as const;
/** Values of a block, and bytes of their codes. */
const BLOCK = 32;
const CODE_BYTES = BLOCK / 2;
/** Square of numbers that are transposed at a time, so that rows and columns stay in the cache. */
const TILE = 64;

export class StackedExperts {
  /** @param tensors of the layer's experts */
  constructor(
    private readonly tensors: LayerTensors,
    private readonly part: StackedPart,
  ) {}

  get hasMatrices(): boolean {
    return this.tensors.find(this.part.name) !== undefined || this.#hasBlocks;
  }

  get hasBiases(): boolean {
    return this.tensors.find(`${this.part.name}_bias`) !== undefined;
  }

  /** Names of the stored tensors. */
  get matrixNames(): readonly string[] {
    const { experts, name } = this.part;
    return (this.#hasBlocks ? ["_blocks", "_scales"] : [""]).map((suffix) => `${experts}.${name}${suffix}`);
  }

  get biasName(): string {
    return `${this.part.experts}.${this.part.name}_bias`;
  }

  get #hasBlocks(): boolean {
    return this.tensors.find(`${this.part.name}_blocks`) !== undefined;
  }

  /** @param spec rows of one expert */
  matrix(spec: MatrixSpec): MatrixRows {
    return this.#hasBlocks ? this.#blocks(spec) : this.#plain(spec);
  }

  /** f32 [count, length] */
  biases(length: number, count: number): Float32Array {
    const { name, step, phase } = this.part;
    const all = this.tensors.floats(this.tensors.get(`${name}_bias`, FLOATS, [count, step * length]));
    return Float32Array.from({ length: count * length }, (_, i) => all[i * step + phase]!);
  }

  #plain({ totalRows, cols, start, rows, numStacked = 1 }: MatrixSpec): MatrixRows {
    const { name, step, phase } = this.part;
    const ownRows = totalRows / numStacked;
    const isOneMatrix = this.tensors.find(name)?.shape.length === 2;
    const shape = isOneMatrix ? [numStacked * cols, step * ownRows] : [numStacked, cols, step * ownRows];
    const tensor = this.tensors.get(name, FLOATS, shape);
    const type = tensor.dtype as (typeof FLOATS)[number];
    const Values = type === "F32" ? Uint32Array : Uint16Array;
    const sliceBytes = tensor.byteLength / numStacked;
    const first = (start % ownRows) * step + phase;
    const convert = (target: ArrayBuffer) => {
      const bytes = this.tensors.bytes(tensor, Math.floor(start / ownRows) * sliceBytes, sliceBytes);
      const from = new Values(bytes.buffer, bytes.byteOffset, cols * step * ownRows);
      const out = new Values(target, 0, rows * cols);
      for (let row = 0; row < rows; row += TILE) {
        for (let col = 0; col < cols; col += TILE) {
          const [endRow, endCol] = [Math.min(rows, row + TILE), Math.min(cols, col + TILE)];
          for (let c = col; c < endCol; c++) {
            const at = c * step * ownRows + first;
            for (let r = row; r < endRow; r++) out[r * cols + c] = from[at + r * step]!;
          }
        }
      }
    };
    return { type, convert };
  }

  #blocks({ totalRows, cols, start, rows, numStacked = 1 }: MatrixSpec): MatrixRows {
    const { name, step, phase } = this.part;
    const ownRows = totalRows / numStacked;
    if (cols % BLOCK !== 0)
      throw this.tensors.refuse(`rows of ${name}_blocks in whole blocks of ${BLOCK} values`, cols);
    const numBlocks = cols / BLOCK;
    const shape = [numStacked, step * ownRows, numBlocks];
    const codes = this.tensors.get(`${name}_blocks`, ["U8"], [...shape, CODE_BYTES]);
    const scales = this.tensors.get(`${name}_scales`, ["U8"], shape);
    // Rows of the stored tensors, of which every step-th one is wanted.
    const first = Math.floor(start / ownRows) * step * ownRows + (start % ownRows) * step;
    const convert = (target: ArrayBuffer) => {
      const rowBytes = numBlocks * CODE_BYTES;
      const from = this.tensors.bytes(codes, first * rowBytes, rows * step * rowBytes);
      const exponents = this.tensors.bytes(scales, first * numBlocks, rows * step * numBlocks);
      const out = new Uint8Array(target);
      for (let row = 0, at = 0; row < rows; row++) {
        let block = (row * step + phase) * numBlocks;
        for (let b = 0; b < numBlocks; b++, block++, at += 1 + CODE_BYTES) {
          out[at] = exponents[block]!;
          interleaveCodes(from, block * CODE_BYTES, CODE_BYTES, out, at + 1);
        }
      }
    };
    return { type: "MXFP4", convert };
  }
}
