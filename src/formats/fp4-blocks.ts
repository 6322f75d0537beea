/** Blocks of 4-bit floats as GGML lays them out, made of what other files have. */
import { BLOCK_LAYOUT } from "./dequantize.js";

const { byteLength: BLOCK_BYTES } = BLOCK_LAYOUT.NVFP4;
const SCALED_BYTES = BLOCK_LAYOUT.NVFP4_SCALED.byteLength;
/** A block's four scales come before its codes. */
const NUM_SCALES = 4;
const CODE_BYTES = BLOCK_BYTES - NUM_SCALES;

/**
 * Moves the codes of `numBytes` bytes from the order (2j, 2j + 1) of a byte's values to the order (j, j + numBytes).
 */
export function interleaveCodes(from: Uint8Array, at: number, numBytes: number, out: Uint8Array, to: number): void {
  const half = numBytes / 2;
  for (let pair = 0; pair < half; pair++) {
    const low = from[at + pair]!;
    const high = from[at + half + pair]!;
    out[to + 2 * pair] = (low & 15) | ((high & 15) << 4);
    out[to + 2 * pair + 1] = (low >> 4) | (high & 0xf0);
  }
}

/** Rows of NVFP4 that lie at the end of `target`, to NVFP4_SCALED in all of it. @param scales of each row */
export function scaleNvfp4(target: ArrayBuffer, scales: Float32Array): void {
  const bytes = new Uint8Array(target);
  const view = new DataView(target);
  const numBlocks = target.byteLength / SCALED_BYTES;
  const blocksPerRow = numBlocks / scales.length;
  let from = numBlocks * (SCALED_BYTES - BLOCK_BYTES);
  // From the front: a block moves down onto places whose blocks have moved.
  for (let block = 0, to = 0; block < numBlocks; block++, from += BLOCK_BYTES, to += SCALED_BYTES) {
    bytes.copyWithin(to + 4, from, from + BLOCK_BYTES);
    view.setFloat32(to, scales[Math.floor(block / blocksPerRow)]!, true);
  }
}

/**
 * Rows of NVFP4_SCALED, from codes [row][cols / 2], two columns a byte with the first in the low half, and E4M3 scales
 * [row][cols / 16].
 */
export function writeNvfp4(codes: Uint8Array, scales: Uint8Array, scale: number, target: Uint8Array): void {
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  const numBlocks = codes.length / CODE_BYTES;
  for (let block = 0, to = 0; block < numBlocks; block++, to += SCALED_BYTES) {
    view.setFloat32(to, scale, true);
    for (let s = 0; s < NUM_SCALES; s++) {
      target[to + 4 + s] = scales[NUM_SCALES * block + s]!;
      const sixteen = CODE_BYTES / NUM_SCALES;
      const at = CODE_BYTES * block + sixteen * s;
      interleaveCodes(codes, at, sixteen, target, to + 4 + NUM_SCALES + sixteen * s);
    }
  }
}

/** Blocks of NVFP4 from those of NVFP4_SCALED, without the scales in front. */
export function unscaledNvfp4(scaled: Uint8Array): Uint8Array {
  const numBlocks = scaled.length / SCALED_BYTES;
  const out = new Uint8Array(numBlocks * BLOCK_BYTES);
  for (let block = 0; block < numBlocks; block++) {
    const from = block * SCALED_BYTES + SCALED_BYTES - BLOCK_BYTES;
    out.set(scaled.subarray(from, from + BLOCK_BYTES), block * BLOCK_BYTES);
  }
  return out;
}

/** The inverse of `writeNvfp4`. A scale that is E4M3's NaN becomes zero, as GGML reads it. */
export function readNvfp4(blocks: Uint8Array): { readonly codes: Uint8Array; readonly scales: Uint8Array } {
  const numBlocks = blocks.length / BLOCK_BYTES;
  const codes = new Uint8Array(numBlocks * CODE_BYTES);
  const scales = new Uint8Array(numBlocks * NUM_SCALES);
  const sixteen = CODE_BYTES / NUM_SCALES;
  for (let block = 0; block < numBlocks; block++) {
    const from = block * BLOCK_BYTES;
    for (let s = 0; s < NUM_SCALES; s++) {
      const scale = blocks[from + s]! & E4M3_NAN;
      scales[NUM_SCALES * block + s] = scale === E4M3_NAN ? 0 : scale;
      const at = from + NUM_SCALES + sixteen * s;
      const to = CODE_BYTES * block + sixteen * s;
      for (let pair = 0; pair < sixteen / 2; pair++) {
        const [first, second] = [blocks[at + 2 * pair]!, blocks[at + 2 * pair + 1]!];
        codes[to + pair] = (first & 15) | ((second & 15) << 4);
        codes[to + sixteen / 2 + pair] = (first >> 4) | (second & 0xf0);
      }
    }
  }
  return { codes, scales };
}

const E4M3_NAN = 0x7f;
