/** Values that no key of a GGUF file expects, or that lie beyond any bound. */
import { arr, bool, f32, i64, str, u32, type WritableValue } from "../../src/formats/gguf/write.js";

export const HOSTILE_VALUES: readonly WritableValue[] = [
  u32(0),
  u32(2 ** 31),
  i64(-1n),
  f32(-1),
  f32(Number.NaN),
  f32(1e30),
  str("x"),
  bool(false),
  arr("u32", [1, 2]),
];
