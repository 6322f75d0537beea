/**
 * How one head's key or value lies in a KV cache, and how each KV type rounds it, found by searching all codes for the
 * nearest.
 *
 * A block's entries lie eight by eight: keys as [D, 8], values as [8, D]. Their scales follow: see
 * native/cpu/kernels/kv_cache.h.
 */
import { KV_OCTET } from "../../src/backend/ops.js";
import { FP4_GROUP, type KvShape, kvEntryBytes, kvValueBytes } from "../../src/backend/program.js";
import { f16ToNumber, numberToF16 } from "../../src/formats/dequantize.js";

export interface KvCacheView {
  readonly bytes: DataView;
  readonly shape: KvShape;
  readonly numBlocks: number;
}

type Side = "key" | "value";

/** Magnitudes of E4M3, whose last code is NaN, of E5M2's finite codes, and of E2M1. */
const E4M3 = Array.from({ length: 127 }, (_, code) => minifloat(code, 3, 7));
const E5M2 = Array.from({ length: 124 }, (_, code) => minifloat(code, 2, 15));
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

function minifloat(code: number, fractionBits: number, bias: number): number {
  const exponent = code >> fractionBits;
  const fraction = (code & ((1 << fractionBits) - 1)) / 2 ** fractionBits;
  return exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias);
}

/** The code of the nearest of rising values; of two, the even one. */
function nearest(values: readonly number[], magnitude: number): number {
  let best = 0;
  for (let code = 1; code < values.length; code++) {
    const difference = Math.abs(values[code]! - magnitude) - Math.abs(values[best]! - magnitude);
    if (difference > 0) break;
    if (difference < 0 || (difference === 0 && code % 2 === 0)) best = code;
  }
  return best;
}

interface Place {
  readonly bytes: DataView;
  readonly shape: KvShape;
  readonly side: Side;
  readonly octet: number;
  readonly lane: number;
}

function placeOf({ bytes, shape }: KvCacheView, side: Side, slot: number, head: number): Place {
  const block = Math.floor(slot / shape.blockSize);
  const octetInBlock = Math.floor((slot % shape.blockSize) / KV_OCTET);
  const index = ((block * shape.numKvHeads + head) * shape.blockSize) / KV_OCTET + octetInBlock;
  const octet = index * KV_OCTET * kvEntryBytes(shape.kvType, shape.headDim);
  return { bytes, shape, side, octet, lane: slot % KV_OCTET };
}

/** Byte offset of part i of an entry's `numParts`, of `size` bytes each, in the section that begins at `start`. */
function offsetOf({ octet, lane, side }: Place, start: number, i: number, numParts: number, size: number): number {
  return octet + start + size * (side === "key" ? i * KV_OCTET + lane : lane * numParts + i);
}

const scalesOf = ({ shape }: Place): number => KV_OCTET * kvValueBytes(shape.kvType, shape.headDim);
const numGroupsOf = ({ shape }: Place): number => Math.ceil(shape.headDim / FP4_GROUP);
const exponentOffset = (place: Place): number =>
  place.octet + KV_OCTET * (kvEntryBytes(place.shape.kvType, place.shape.headDim) - 1) + place.lane;
function largestOf(values: Float32Array): number {
  let most = 0;
  for (const value of values) most = Number.isFinite(value) ? Math.max(most, Math.abs(value)) : Infinity;
  return most;
}

/** Stores one head's vector at `slot`. */
export function storeEntry(cache: KvCacheView, side: Side, slot: number, head: number, values: Float32Array): void {
  const place = placeOf(cache, side, slot, head);
  const { bytes, shape } = place;
  const { kvType, headDim } = shape;
  const at = (d: number, size: number): number => offsetOf(place, 0, d, headDim, size);
  switch (kvType) {
    case "f32":
      values.forEach((value, d) => {
        bytes.setFloat32(at(d, 4), value, true);
      });
      break;
    case "f16":
      values.forEach((value, d) => {
        bytes.setUint16(at(d, 2), numberToF16(value), true);
      });
      break;
    case "int8":
      storeInt8(place, values);
      break;
    case "fp8_e5m2":
      values.forEach((value, d) => {
        const code = Number.isNaN(value) ? 0x7f : nearest(E5M2, Math.min(Math.abs(value), 57344));
        bytes.setUint8(at(d, 1), (isNegative(value) ? 0x80 : 0) | code);
      });
      break;
    case "fp8_e4m3": {
      const exponent = storeExponent(place, largestOf(values));
      values.forEach((value, d) => {
        const code = exponent === undefined ? 0 : nearest(E4M3, Math.abs(value) * 2 ** (8 - exponent));
        bytes.setUint8(at(d, 1), exponent === undefined ? 0 : (isNegative(value) ? 0x80 : 0) | code);
      });
      break;
    }
    case "fp4":
      storeFp4(place, values);
  }
}

const signBytes = new DataView(new ArrayBuffer(4));
/** Of zeros, too. */
const isNegative = (value: number): boolean => {
  signBytes.setFloat32(0, value);
  return signBytes.getUint8(0) >> 7 === 1;
};

function storeInt8(place: Place, values: Float32Array): void {
  const largest = largestOf(values);
  const quotient = Math.fround(largest / 127);
  const scale = largest === Infinity ? Number.NaN : quotient < 2 ** -126 ? 0 : quotient;
  place.bytes.setFloat32(place.octet + scalesOf(place) + 4 * place.lane, scale, true);
  values.forEach((value, d) => {
    const quantum = scale > 0 ? roundToEven(Math.fround(value / scale)) : 0;
    place.bytes.setInt8(offsetOf(place, 0, d, values.length, 1), quantum);
  });
}

const roundToEven = (value: number): number => Math.fround(Math.fround(value + 1.5 * 2 ** 23) - 1.5 * 2 ** 23);

/**
 * Stores the least x for which all magnitudes are at most 1.75 · 2^x, and returns it: undefined where only zeros are
 * stored.
 */
function storeExponent(place: Place, largest: number): number | undefined {
  let exponent = largest === Infinity ? 128 : largest === 0 ? -127 : Math.floor(Math.log2(largest)) - 1;
  while (exponent > -127 && exponent < 128 && largest > 1.75 * 2 ** exponent) exponent++;
  const isTiny = exponent < -95;
  const isHuge = exponent > 126;
  place.bytes.setUint8(exponentOffset(place), isTiny ? 0 : isHuge ? 255 : exponent + 127);
  return isTiny || isHuge ? undefined : exponent;
}

function storeFp4(place: Place, values: Float32Array): void {
  const numGroups = numGroupsOf(place);
  const exponent = storeExponent(place, Math.fround(largestOf(values) / 4));
  for (let group = 0; group < numGroups; group++) {
    const padded = new Float32Array(FP4_GROUP);
    if (exponent !== undefined) padded.set(values.subarray(group * FP4_GROUP, (group + 1) * FP4_GROUP));
    const unit = exponent === undefined ? 0 : 2 ** exponent;
    const top = exponent === undefined ? 0 : largestOf(padded) / unit;
    const [narrow, wide] = [6, 4].map((most) => {
      const code = nearest(E4M3, Math.fround(top / most) * 2 ** 8);
      return { code, ...encodeGroup(padded, (E4M3[code]! / 2 ** 8) * unit) };
    });
    const { code, codes } = wide!.error < narrow!.error ? wide! : narrow!;
    place.bytes.setUint8(offsetOf(place, scalesOf(place), group, numGroups, 1), code);
    for (let i = 0; i < FP4_GROUP / 2; i++) {
      const [low, high] = place.side === "key" ? [codes[2 * i]!, codes[2 * i + 1]!] : [codes[i]!, codes[i + 8]!];
      const at = offsetOf(place, 0, group * (FP4_GROUP / 2) + i, numGroups * (FP4_GROUP / 2), 1);
      place.bytes.setUint8(at, low | (high << 4));
    }
  }
}

/** The codes of a group's values, and their squared error as f32 adds it up. */
function encodeGroup(values: Float32Array, scale: number): { readonly codes: number[]; readonly error: number } {
  let error = 0;
  const codes = Array.from(values, (value) => {
    const magnitude = Math.abs(value);
    const code = scale > 0 ? nearest(E2M1, Math.fround(magnitude / scale)) : 0;
    const off = Math.fround(magnitude - Math.fround(E2M1[code]! * scale));
    error = Math.fround(error + Math.fround(off * off));
    return code > 0 && value < 0 ? code | 8 : code;
  });
  return { codes, error };
}

/** One head's stored vector [headDim]. */
export function loadEntry(cache: KvCacheView, side: Side, slot: number, head: number): Float64Array {
  const place = placeOf(cache, side, slot, head);
  const { bytes, shape } = place;
  const { kvType, headDim } = shape;
  const at = (d: number, size: number): number => offsetOf(place, 0, d, headDim, size);
  const values = new Float64Array(headDim);
  for (let d = 0; d < headDim; d++) {
    if (kvType === "f32") values[d] = bytes.getFloat32(at(d, 4), true);
    else if (kvType === "f16") values[d] = f16ToNumber(bytes.getUint16(at(d, 2), true));
    else if (kvType === "int8") {
      values[d] = bytes.getInt8(at(d, 1)) * bytes.getFloat32(place.octet + scalesOf(place) + 4 * place.lane, true);
    } else if (kvType === "fp8_e5m2") values[d] = f16ToNumber(bytes.getUint8(at(d, 1)) << 8);
    else if (kvType === "fp8_e4m3") {
      values[d] = signed(E4M3, bytes.getUint8(at(d, 1)), 0x80) * 2 ** -8 * scaleOf(place);
    } else values[d] = loadFp4(place, d);
  }
  return values;
}

const signed = (values: readonly number[], code: number, sign: number): number =>
  (code & sign) !== 0 ? -values[code & (sign - 1)]! : values[code & (sign - 1)]!;

function scaleOf(place: Place): number {
  const exponent = place.bytes.getUint8(exponentOffset(place));
  return exponent === 0 ? 0 : exponent === 255 ? Infinity : 2 ** (exponent - 127);
}

function loadFp4(place: Place, d: number): number {
  const numGroups = numGroupsOf(place);
  const group = Math.floor(d / FP4_GROUP);
  const i = d % FP4_GROUP;
  const [byte, isHigh] = place.side === "key" ? [Math.floor(i / 2), i % 2 === 1] : [i % 8, i >= 8];
  const pair = place.bytes.getUint8(offsetOf(place, 0, group * 8 + byte, numGroups * 8, 1));
  const scale = place.bytes.getUint8(offsetOf(place, scalesOf(place), group, numGroups, 1));
  return signed(E2M1, isHigh ? pair >> 4 : pair & 15, 8) * E4M3[scale]! * 2 ** -8 * scaleOf(place);
}
