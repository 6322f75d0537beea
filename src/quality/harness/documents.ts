/** Documents of a task's splits: JSON lines, or one JSON array, in local files. */
import { resolve } from "node:path";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { readText } from "../../core/read-text.js";
import type { NumberText } from "../../text/template/jinja-values.js";
import { parseMarked } from "../../text/template/number-marks.js";
import { type TaskFile, taskError } from "./task-file.js";

/** Numbers of documents that a double prints differently from Python. */
export type Numbers = Map<string, NumberText>;

export type Document = Readonly<Record<string, unknown>>;

const documentSchema = z.record(z.string(), z.unknown());

/**
 * The documents of one split. Paths are relative to the working folder, as for the harness. Throws file_unreadable and
 * invalid_option.
 */
export function readSplit(
  { dataset_kwargs: { data_files: files } }: TaskFile,
  split: string,
  path: string,
  numbers: Numbers,
): Document[] {
  const bySplit = typeof files === "string" || Array.isArray(files) ? { train: files } : files;
  const found = Object.hasOwn(bySplit, split) ? bySplit[split] : undefined;
  if (found === undefined) {
    const names = Object.keys(bySplit).join(", ");
    throw taskError(path, "dataset_kwargs.data_files", `files by split, with ${JSON.stringify(split)}`, names);
  }
  const documents = [found]
    .flat()
    .flatMap((file) => parseDocuments(readText(resolve(file), "documents"), file, numbers));
  if (documents.length === 0) throw new MillraceError("invalid_option", `expected documents in ${found}, got none`);
  // A table has all columns in each row.
  const columns = Object.fromEntries(documents.flatMap((document) => Object.keys(document)).map((key) => [key, null]));
  return documents.map((document) => ({ ...columns, ...document }));
}

function parseDocuments(text: string, file: string, numbers: Numbers): Document[] {
  const isArray = text.trimStart().startsWith("[");
  if (isArray) return parsed(z.array(documentSchema), text, file, numbers);
  return text
    .split("\n")
    .flatMap((line, index) =>
      line.trim() === "" ? [] : [parsed(documentSchema, line, `${file}, line ${index + 1}`, numbers)],
    );
}

function parsed<T>(schema: z.ZodType<T>, text: string, place: string, numbers: Numbers): T {
  let value: unknown;
  try {
    value = parseMarked(text, numbers);
  } catch {
    // Refused below, together with JSON of another shape.
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new MillraceError("invalid_option", `expected a JSON object in ${place}, got ${text.trim().slice(0, 60)}`, {
    hint: "documents are JSON lines, or one array of objects",
  });
}
