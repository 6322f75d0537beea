/** A file of JSON lines that only grows: each record is appended as it arrives, so that a stopped run can resume. */
import { appendFileSync, existsSync, readFileSync, truncateSync } from "node:fs";
import { MillraceError } from "./errors.js";
import { sizeOfRegular } from "./read-text.js";

export class RecordFile<T extends { readonly id: string }> {
  readonly #records: Map<string, T>;

  private constructor(
    readonly path: string,
    records: Map<string, T>,
  ) {
    this.#records = records;
  }

  /**
   * Reads the file, and creates it if it is missing. Of several records with one id, the first counts; an incomplete
   * last
   * line is removed.
   *
   * @param parse throws for a value that is not a record
   * @param what names the records in errors
   * @param flag names the file, for hints
   * @throws MillraceError file_unreadable if the file cannot be opened, or with the number of a damaged line
   */
  static open<T extends { readonly id: string }>(
    path: string,
    parse: (value: unknown) => T,
    what: string,
    flag: string,
  ) {
    const bytes = openAt(path, flag);
    const wholeBytes = bytes.lastIndexOf("\n") + 1;
    const records = new Map<string, T>();
    const lines = bytes.toString("utf8", 0, wholeBytes).split("\n").slice(0, -1);
    for (const [index, line] of lines.entries()) {
      const record = readLine(line, parse, `${what} in ${path}, line ${index + 1}`, flag);
      if (!records.has(record.id)) records.set(record.id, record);
    }
    // Only after parsing: a file with a line that is not a record may belong to somebody else and must stay as it is.
    if (wholeBytes < bytes.length) truncateSync(path, wholeBytes);
    return new RecordFile(path, records);
  }

  get(id: string): T | undefined {
    return this.#records.get(id);
  }

  add(record: T): void {
    if (this.#records.has(record.id)) return;
    appendFileSync(this.path, `${JSON.stringify(record)}\n`);
    this.#records.set(record.id, record);
  }
}

/** The file's bytes, after a check that it can be written. */
function openAt(path: string, flag: string): Buffer {
  try {
    if (existsSync(path)) sizeOfRegular(path);
    appendFileSync(path, "");
    return readFileSync(path);
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected to read and write ${path}, got ${(cause as Error).message}`, {
      hint: `give another ${flag}, or the right to write there`,
      cause,
    });
  }
}

function readLine<T>(line: string, parse: (value: unknown) => T, expected: string, flag: string): T {
  try {
    return parse(JSON.parse(line));
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected ${expected}, got another text`, {
      hint: `remove the line, or use another ${flag}`,
      cause,
    });
  }
}
