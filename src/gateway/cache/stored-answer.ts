/**
 * A kept answer, and its form as bytes: a checksum, a line of JSON about the answer, then its body as the upstream sent
 * it.
 */
import { hash } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { quoted } from "../../core/quoted-text.js";
import type { TokenCounts } from "../usage/record.js";

export interface StoredAnswer {
  /** The model that answered. */
  readonly model: string;
  /** Owner of the answer. */
  readonly tenant: string;
  /** Names under which the answer can be purged. */
  readonly tags: readonly string[];
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  readonly expiresMs: number;
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly isEventStream: boolean;
  /**
   * For a stream, in alternation: the end of a write in bytes, and its time since the request in milliseconds. Empty
   * for other answers.
   */
  readonly marks: readonly number[];
  /** Token counts as the upstream reported them. */
  readonly usage: TokenCounts | undefined;
  /** Hash of the answered request; "" if the key identifies it. */
  readonly check: string;
  readonly body: Buffer;
}

/** Bytes that an answer takes beside its body. */
const ENTRY_BYTES = 512;

export function bytesOf({ body, marks, tags }: StoredAnswer): number {
  return body.length + marks.length * 8 + tags.length * 128 + ENTRY_BYTES;
}

const LENGTH_BYTES = 4;
/** Enough to notice damage, but not forgery. */
const CHECKSUM_BYTES = 8;
const HEAD_START = CHECKSUM_BYTES + LENGTH_BYTES;
/** Changes with the form; answers of another form are misses. */
const FORM = 1;

function checksumOf(bytes: Buffer): Buffer {
  return hash("sha1", bytes, "buffer").subarray(0, CHECKSUM_BYTES);
}

const listJson = (list: readonly unknown[]): string => (list.length === 0 ? "[]" : JSON.stringify(list));

/** An answer's form as bytes, ready to be written into a buffer. Its checksum is still to come. */
interface EncodedForm {
  readonly head: string;
  readonly headBytes: number;
  readonly body: Buffer;
  /** Bytes of the whole form. */
  readonly numBytes: number;
}

export function formOf(answer: StoredAnswer): EncodedForm {
  const { model, tenant, tags, createdMs, expiresMs, status, headers, isEventStream, marks, usage, check, body } =
    answer;
  // Part by part: half the time of JSON.stringify for the whole.
  let head = `{"form":${FORM},"model":${quoted(model)},"tenant":${quoted(tenant)},"check":${quoted(check)}`;
  head += `,"tags":${listJson(tags)},"createdMs":${createdMs},"expiresMs":${expiresMs},"status":${status}`;
  head += `,"headers":${JSON.stringify(headers)},"isEventStream":${isEventStream},"marks":${listJson(marks)}`;
  head += usage === undefined ? "}" : `,"usage":${JSON.stringify(usage)}}`;
  const headBytes = Buffer.byteLength(head);
  return { head, headBytes, body, numBytes: HEAD_START + headBytes + body.length };
}

/** @returns the end of the answer in the buffer */
export function writeForm({ head, headBytes, body, numBytes }: EncodedForm, into: Buffer, start: number): number {
  into.writeUInt32LE(headBytes, start + CHECKSUM_BYTES);
  into.write(head, start + HEAD_START);
  body.copy(into, start + HEAD_START + headBytes);
  return start + numBytes;
}

/** Writes the checksum of an answer in its form as bytes. */
export function seal(bytes: Buffer): void {
  checksumOf(bytes.subarray(CHECKSUM_BYTES)).copy(bytes);
}

export function encodeAnswer(answer: StoredAnswer): Buffer {
  const form = formOf(answer);
  const bytes = Buffer.allocUnsafe(form.numBytes);
  writeForm(form, bytes, 0);
  seal(bytes);
  return bytes;
}

/** @returns undefined for damaged bytes, and for the form of another release */
export function decodeAnswer(bytes: Buffer): StoredAnswer | undefined {
  if (bytes.length < HEAD_START) return undefined;
  const end = HEAD_START + bytes.readUInt32LE(CHECKSUM_BYTES);
  if (end > bytes.length) return undefined;
  if (!checksumOf(bytes.subarray(CHECKSUM_BYTES)).equals(bytes.subarray(0, CHECKSUM_BYTES))) return undefined;
  try {
    const { form, ...about } = JSON.parse(bytes.toString("utf8", HEAD_START, end)) as StoredAnswer & { form: number };
    return form === FORM ? { ...about, usage: about.usage, body: bytes.subarray(end) } : undefined;
  } catch {
    return undefined;
  }
}
