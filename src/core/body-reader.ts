/**
 * Reads bodies of requests as JSON. A thread checks and decodes large bodies and extracts lists of token ids. The main
 * thread parses the rest, whose number of JSON parts is bounded, since a part costs more than its bytes.
 */
import { type BodyOrigin, BodyQueue } from "./body-queue.js";
import type { IdLists } from "./body-thread.js";
import {
  assertOnce,
  assertShape,
  type JsonObject,
  LARGE_BODY_BYTES,
  MAX_JSON_MARKS,
  objectOf,
  shapeOf,
  textOf,
} from "./json-body.js";

const queue = new BodyQueue();

interface ReadBody {
  /** Long lists of token ids, in the field that may hold them, become Int32Arrays. */
  readonly body: JsonObject;
  /** The original bytes may have been transferred to the thread. */
  readonly bytes: Buffer;
}

/**
 * @example const { body } = await readBody(Buffer.from('{"model":"mill"}'), { tenant: "", onWait: () => {} });
 *   // { model: "mill" }
 */
export async function readBody(bytes: Uint8Array, origin: BodyOrigin): Promise<ReadBody> {
  if (bytes.length <= LARGE_BODY_BYTES) {
    const shape = shapeOf(bytes, MAX_JSON_MARKS);
    assertShape(shape);
    if (shape.numMarks <= MAX_JSON_MARKS) {
      const body = objectOf(textOf(bytes), bytes.length);
      assertOnce(body, shape.numMembers);
      return {
        body,
        bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
      };
    }
  }
  const answer = await queue.read(bytes, origin);
  const body = withLists(objectOf(answer.text, answer.bytes.length), answer.lists);
  assertOnce(body, answer.numMembers);
  return { body, bytes: Buffer.from(answer.bytes.buffer) };
}

/** Puts the lists back into their fields. */
function withLists(body: JsonObject, lists: IdLists): JsonObject {
  if (Object.keys(lists).length === 0) return body;
  const whole: Record<string, unknown> = { ...body };
  for (const [field, { ids, lengths }] of Object.entries(lists)) {
    whole[field] = lengths === undefined ? ids : splitBy(ids, lengths);
  }
  return whole;
}

function splitBy(ids: Int32Array, lengths: Int32Array): Int32Array[] {
  let end = 0;
  return Array.from(lengths, (length) => {
    end += length;
    return ids.subarray(end - length, end);
  });
}
