/**
 * Where each line of a batch's input begins and which model it asks for, kept in a file: a batch that resumes after a
 * crash need not be checked again.
 */
import { readFile, rename, writeFile } from "node:fs/promises";
import { MillraceError } from "../../core/errors.js";

/** 16 bytes a line: offset and length in the file, number of the line, number of its model. */
const FIELDS = 4;

export class LineIndex {
  #fields: Uint32Array;
  #length = 0;

  constructor(capacity = 1024) {
    this.#fields = new Uint32Array(capacity * FIELDS);
  }

  get length(): number {
    return this.#length;
  }

  /** @param model index into the batch's models */
  add(offset: number, length: number, number: number, model: number): void {
    const at = this.#length * FIELDS;
    if (at === this.#fields.length) {
      const grown = new Uint32Array(this.#fields.length * 2);
      grown.set(this.#fields);
      this.#fields = grown;
    }
    this.#fields.set([offset, length, number, model], at);
    this.#length++;
  }

  /** @param index from 0 */
  at(index: number): { readonly offset: number; readonly length: number; readonly number: number } {
    const at = index * FIELDS;
    return { offset: this.#fields[at]!, length: this.#fields[at + 1]!, number: this.#fields[at + 2]! };
  }

  modelAt(index: number): number {
    return this.#fields[index * FIELDS + 3]!;
  }

  /** Replaces the file at once: a reader sees the whole index or none. */
  async write(path: string): Promise<void> {
    const { buffer, byteOffset } = this.#fields;
    const aside = `${path}.new`;
    await writeFile(aside, new Uint8Array(buffer, byteOffset, this.#length * FIELDS * 4), { mode: 0o600, flush: true });
    await rename(aside, path);
  }

  static async read(path: string): Promise<LineIndex> {
    const bytes = await readFile(path);
    if (bytes.length % (FIELDS * 4) !== 0) {
      throw new MillraceError("file_unreadable", `expected a whole index at ${path}, got ${bytes.length} bytes`);
    }
    const index = new LineIndex(0);
    index.#fields = new Uint32Array(new Uint8Array(bytes).buffer);
    index.#length = bytes.length / (FIELDS * 4);
    return index;
  }
}
