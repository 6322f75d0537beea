/** Detects, without a search, a key that a table lacks, as for most requests. */
import type Database from "libsql";

/**
 * Each key sets one bit of 2 MiB, chosen by its first six hexadecimal digits. With a million keys, one unknown key in
 * seventeen still needs a search.
 */
const DIGITS = 6;
const NUM_BYTES = 16 ** DIGITS / 8;

export class KeyFilter {
  readonly #bits = new Uint8Array(NUM_BYTES);

  /** @param id hexadecimal @returns false: the id was surely not added */
  mayHave(id: string): boolean {
    const place = placeOf(id);
    return (this.#bits[place >> 3]! & (1 << (place & 7))) !== 0;
  }

  add(id: string): void {
    const place = placeOf(id);
    this.#bits[place >> 3]! |= 1 << (place & 7);
  }

  /** @param table with a column of keys as blobs @returns a filter of its keys */
  static of(database: Database.Database, table: string): KeyFilter {
    const filter = new KeyFilter();
    const sql = `SELECT coalesce(group_concat(substr(hex(key), 1, ${DIGITS}), ' '), '') AS starts FROM ${table}`;
    const { starts } = database.prepare(sql).get([]) as { readonly starts: string };
    if (starts !== "") for (const start of starts.split(" ")) filter.add(start);
    return filter;
  }
}

const placeOf = (id: string): number => Number.parseInt(id.slice(0, DIGITS), 16);
