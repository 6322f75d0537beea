/**
 * Damages a GGUF model as a faulty converter would: the matrix of its outputs has the rows of some tokens exchanged, so
 * it is wrong and sure of it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { readGguf } from "../../src/formats/gguf/read.js";
import { encodeString, encodeU32, encodeU64 } from "../../src/formats/gguf/write.js";

const ALIGNMENT = 32;
const Q8_0 = 8;
const NUM_TENSORS_AT = 8;

const padding = (length: number): Buffer => Buffer.alloc((ALIGNMENT - (length % ALIGNMENT)) % ALIGNMENT);

/**
 * Adds an output matrix to a model that uses its embedding, of type Q8_0, for both.
 *
 * @param exchanged pairs of tokens
 */
export function writeDamagedModel(from: string, to: string, exchanged: readonly (readonly [string, string])[]): void {
  const bytes = readFileSync(from);
  const { tensors, metadata } = readGguf(from);
  const tokens = metadata.strings("tokenizer.ggml.tokens")!;
  const all = [...tensors.values()];
  const embedding = all.find(({ name }) => name === "token_embd.weight")!;
  const rows = Buffer.from(bytes.subarray(embedding.byteOffset, embedding.byteOffset + embedding.byteLength));
  const rowBytes = rows.length / tokens.length;
  const rowOf = (token: string): Buffer => rows.subarray(tokens.indexOf(token) * rowBytes).subarray(0, rowBytes);
  for (const [a, b] of exchanged) {
    const first = Buffer.from(rowOf(a));
    rowOf(b).copy(rowOf(a));
    first.copy(rowOf(b));
  }
  const dataStart = Math.min(...all.map(({ byteOffset }) => byteOffset));
  // A tensor's entry is its name, the number of dimensions, the dimensions, the type and the offset.
  const ends = all.map(({ name, shape }) => {
    const key = encodeString(name);
    return bytes.lastIndexOf(key, dataStart) + key.length + 4 + 8 * shape.length + 4 + 8;
  });
  const data = bytes.subarray(dataStart);
  const padded = Buffer.concat([data, padding(data.length)]);
  const shape = [encodeU32(2), ...embedding.shape.map((size) => encodeU64(size))];
  const entry = [encodeString("output.weight"), ...shape, encodeU32(Q8_0), encodeU64(padded.length)];
  const header = Buffer.concat([bytes.subarray(0, Math.max(...ends)), ...entry]);
  header.writeBigUInt64LE(header.readBigUInt64LE(NUM_TENSORS_AT) + 1n, NUM_TENSORS_AT);
  writeFileSync(to, Buffer.concat([header, padding(header.length), padded, rows]));
}
