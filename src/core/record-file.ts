/** A file of JSON lines that only grows: each record is appended as it comes, so that a stopped run resumes. */
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { MillraceError } from "./errors.js";

export class RecordFile<T extends { readonly id: string }> {
  readonly #records: Map<string, T>;

  private constructor(
    readonly path: string,
    records: Map<string, T>,
  ) {
    this.#records = records;
  }

  /**
   * Reads the file, which is made where it is missing. Of several records of one id the first counts; an incomplete last line is removed.
   *
   * @param parse throws for a value that is no record
   * @param what the records' name, for errors
   * @throws MillraceError file_unreadable with the number of a damaged line
   */
  static open<T extends { readonly id: string }>(path: string, parse: (value: unknown) => T, what: string) {
    if (!existsSync(path)) writeFileSync(path, "");
    const bytes = readFileSync(path);
    const wholeBytes = bytes.lastIndexOf("\n") + 1;
    if (wholeBytes < bytes.length) truncateSync(path, wholeBytes);
    const records = new Map<string, T>();
    const lines = bytes.toString("utf8", 0, wholeBytes).split("\n").slice(0, -1);
    for (const [index, line] of lines.entries()) {
      const record = readLine(line, parse, `${what} in ${path}, line ${index + 1}`);
      if (!records.has(record.id)) records.set(record.id, record);
    }
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

function readLine<T>(line: string, parse: (value: unknown) => T, expected: string): T {
  try {
    return parse(JSON.parse(line));
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected ${expected}, got another text`, {
      hint: "remove the line, or use another --out",
      cause,
    });
  }
}
