/**
 * Sets numbers in a GGUF file's metadata and keeps its tensors byte for byte.
 *
 *   node scripts/gguf-metadata.js FILE KEY=NUMBER…     such as general.sampling.temp=0
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Bytes of a value, by its type's number: u8, i8, u16, i16, u32, i32, f32, bool, string, array, u64, i64, f64. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, undefined, undefined, 8, 8, 8];
const FLOAT32 = 6;
const STRING = 8;
const ARRAY = 9;
/** Size of magic, version and the two counts. */
const FIRST_ENTRY = 24;
const DEFAULT_ALIGNMENT = 32;

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = FIRST_ENTRY;
  }

  u32() {
    this.at += 4;
    return this.bytes.readUInt32LE(this.at - 4);
  }

  size() {
    this.at += 8;
    return Number(this.bytes.readBigUInt64LE(this.at - 8));
  }

  text() {
    const length = this.size();
    this.at += length;
    return this.bytes.toString("utf8", this.at - length, this.at);
  }

  skipValue(type) {
    if (type === STRING) this.text();
    else if (type === ARRAY) this.skipArray();
    else if (SIZES[type] === undefined) throw new Error(`expected a type of 0 to 12, got ${type}`);
    else this.at += SIZES[type];
  }

  skipArray() {
    const type = this.u32();
    const length = this.size();
    if (SIZES[type] !== undefined) this.at += length * SIZES[type];
    else for (let index = 0; index < length; index += 1) this.skipValue(type);
  }
}

function entryOf(key, value) {
  const name = Buffer.from(key);
  const entry = Buffer.alloc(8 + name.length + 4 + 4);
  entry.writeBigUInt64LE(BigInt(name.length));
  name.copy(entry, 8);
  entry.writeUInt32LE(FLOAT32, 8 + name.length);
  entry.writeFloatLE(value, 12 + name.length);
  return entry;
}

/**
 * @param {Buffer} bytes @param {Record<string, number>} values as 32-bit floats; they replace entries of the same name
 */
export function withMetadata(bytes, values) {
  if (bytes.toString("latin1", 0, 4) !== "GGUF" || bytes.readUInt32LE(4) < 2) throw new Error("expected a GGUF file");
  const reader = new Reader(bytes);
  const entries = [];
  let alignment = DEFAULT_ALIGNMENT;
  for (let index = Number(bytes.readBigUInt64LE(16)); index > 0; index -= 1) {
    const start = reader.at;
    const key = reader.text();
    const type = reader.u32();
    if (key === "general.alignment") alignment = bytes.readUInt32LE(reader.at);
    reader.skipValue(type);
    if (!Object.hasOwn(values, key)) entries.push(bytes.subarray(start, reader.at));
  }
  const tableStart = reader.at;
  for (let index = Number(bytes.readBigUInt64LE(8)); index > 0; index -= 1) {
    reader.text();
    // The dimensions, then type and offset; offsets count from the start of the data.
    const numDimensions = reader.u32();
    reader.at += 8 * numDimensions + 12;
  }
  const table = bytes.subarray(tableStart, reader.at);
  const data = bytes.subarray(Math.ceil(reader.at / alignment) * alignment);
  for (const [key, value] of Object.entries(values)) entries.push(entryOf(key, value));
  const start = Buffer.from(bytes.subarray(0, FIRST_ENTRY));
  start.writeBigUInt64LE(BigInt(entries.length), 16);
  const header = Buffer.concat([start, ...entries, table]);
  const padding = Buffer.alloc(Math.ceil(header.length / alignment) * alignment - header.length);
  return Buffer.concat([header, padding, data]);
}

function main([file, ...assignments]) {
  const values = Object.fromEntries(
    assignments.map((text) => text.split("=")).map(([key, text]) => [key, Number(text)]),
  );
  if (assignments.length === 0 || Object.values(values).some((value) => !Number.isFinite(value))) {
    process.stderr.write("expected FILE KEY=NUMBER…\n");
    process.exit(2);
  }
  writeFileSync(`${file}.new`, withMetadata(readFileSync(file), values));
  renameSync(`${file}.new`, file);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) main(process.argv.slice(2));
