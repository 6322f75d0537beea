/** A kept answer, and its form as bytes: a line of JSON about it, then its body as the upstream sent it. */
import type { OutgoingHttpHeaders } from "node:http";
import type { TokenCounts } from "../usage/record.js";

export interface StoredAnswer {
  /** The model that gave it. */
  readonly model: string;
  /** Whose it is. */
  readonly tenant: string;
  /** Names under which it can be purged. */
  readonly tags: readonly string[];
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  readonly expiresMs: number;
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly isEventStream: boolean;
  /** Of a stream, in alternation: the end of a write in bytes, and its time since the request in milliseconds. Empty for other answers. */
  readonly marks: readonly number[];
  /** Token counts as the upstream reported them. */
  readonly usage: TokenCounts | undefined;
  /** Hash of the request that it answers; "" where the key says that. */
  readonly check: string;
  readonly body: Buffer;
}

/** What an answer counts beside its body. */
const ENTRY_BYTES = 512;

export function bytesOf({ body, marks, tags }: StoredAnswer): number {
  return body.length + marks.length * 8 + tags.length * 128 + ENTRY_BYTES;
}

const LENGTH_BYTES = 4;
/** Changes with the form; answers of another form are misses. */
const FORM = 1;

export function encodeAnswer({ body, ...about }: StoredAnswer): Buffer {
  const head = Buffer.from(JSON.stringify({ form: FORM, ...about }));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32LE(head.length);
  return Buffer.concat([length, head, body]);
}

/** @returns undefined for bytes that are no answer of this form, which another release may have kept */
export function decodeAnswer(bytes: Buffer): StoredAnswer | undefined {
  if (bytes.length < LENGTH_BYTES) return undefined;
  const end = LENGTH_BYTES + bytes.readUInt32LE();
  if (end > bytes.length) return undefined;
  try {
    const { form, ...about } = JSON.parse(bytes.toString("utf8", LENGTH_BYTES, end)) as StoredAnswer & { form: number };
    return form === FORM ? { ...about, usage: about.usage, body: bytes.subarray(end) } : undefined;
  } catch {
    return undefined;
  }
}
