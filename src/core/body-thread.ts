/** The thread that scans large bodies, one message each; see body-reader.ts. */
import { parentPort } from "node:worker_threads";
import { type ErrorRecord, errorToRecord, toMillraceError } from "./errors.js";
import { assertFewMarks, assertShape, MAX_JSON_MARKS, objectOf, shapeOf, textOf, tooManyMarks } from "./json-body.js";

/** Field → a list of ids; with `lengths`, several lists of ids, one after another. */
export type IdLists = Readonly<
  Record<string, { readonly ids: Int32Array<ArrayBuffer>; readonly lengths: Int32Array<ArrayBuffer> | undefined }>
>;

export interface LookedOver {
  /** The body's original bytes. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** JSON within the limit of parts, without the lists. */
  readonly text: string;
  readonly lists: IdLists;
  /** Number of members of all objects in the bytes; a name that occurs twice in an object counts twice. */
  readonly numMembers: number;
}

export type FromBodyThread =
  | (LookedOver & { readonly kind: "read" })
  | { readonly kind: "refused"; readonly error: ErrorRecord };

export interface ToBodyThread {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The field that may hold lists of token ids; absent: no field may. */
  readonly idField: string | undefined;
}

/** @returns the text, and the lists extracted from it. Throws a faulty body's coded error. */
function lookOver({ bytes, idField }: ToBodyThread): Omit<LookedOver, "bytes"> {
  const shape = shapeOf(bytes, MAX_JSON_MARKS);
  assertShape(shape);
  const { numMembers } = shape;
  const text = textOf(bytes);
  if (shape.numMarks <= MAX_JSON_MARKS) return { text, lists: {}, numMembers };
  const rest: Record<string, unknown> = { ...objectOf(text, bytes.length) };
  const list = idField === undefined ? undefined : idsOf(rest[idField]);
  if (idField === undefined || list === undefined) throw tooManyMarks();
  delete rest[idField];
  // Checked before the rest is serialised, since with another long list that would take longer than all other steps.
  assertFewMarks(shape.numMarks - (list.ids.length - (list.lengths?.length ?? 1)));
  return { text: JSON.stringify(rest), lists: { [idField]: list }, numMembers };
}

function idsOf(value: unknown): IdLists[string] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  if (isIds(value)) return { ids: Int32Array.from(value), lengths: undefined };
  if (!value.every(isIds)) return undefined;
  const lengths = Int32Array.from(value, (list) => list.length);
  const ids = new Int32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const list of value) {
    ids.set(list, at);
    at += list.length;
  }
  return { ids, lengths };
}

const isIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => typeof id === "number" && Object.is(id | 0, id));

parentPort?.on("message", (message: ToBodyThread) => {
  const { bytes } = message;
  try {
    const { text, lists, numMembers } = lookOver(message);
    const moved = Object.values(lists).flatMap(({ ids, lengths }) => [
      ids.buffer,
      ...(lengths ? [lengths.buffer] : []),
    ]);
    const answer: FromBodyThread = { kind: "read", bytes, text, lists, numMembers };
    parentPort!.postMessage(answer, [bytes.buffer, ...moved]);
  } catch (thrown) {
    const answer: FromBodyThread = { kind: "refused", error: errorToRecord(toMillraceError(thrown)) };
    parentPort!.postMessage(answer);
  }
});
