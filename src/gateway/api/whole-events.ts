/**
 * Cuts a stream of server-sent events between events: the client never gets part of one, so an error event can follow
 * at any time.
 */

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
/** A longer event is passed on in pieces. */
const MAX_HELD_BYTES = 256 * 1024;
const NOTHING = Buffer.alloc(0);

export class WholeEvents {
  #held: Buffer = NOTHING;

  /** @returns the bytes to send after `chunk`; empty while no event is complete */
  push(chunk: Buffer): Buffer {
    if (this.#held.length === 0 && endsEvent(chunk, chunk.length)) return chunk;
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const end = bytes.length > MAX_HELD_BYTES ? bytes.length : lastEventEnd(bytes);
    this.#held = bytes.subarray(end);
    return bytes.subarray(0, end);
  }

  /** @returns the rest, at the regular end of the stream */
  flush(): Buffer {
    const held = this.#held;
    this.#held = NOTHING;
    return held;
  }
}

/** Whether an empty line ends at `end`: \n\n, or \r\n\r\n. */
function endsEvent(bytes: Buffer, end: number): boolean {
  if (bytes[end - 1] !== LF) return false;
  return bytes[end - 2] === LF || (bytes[end - 2] === CR && bytes[end - 3] === LF);
}

function lastEventEnd(bytes: Buffer): number {
  let end = bytes.length;
  while (end > 1 && !endsEvent(bytes, end)) end = bytes.lastIndexOf(LF, end - 2) + 1;
  return end > 1 ? end : 0;
}

/** Whether lines of a stream are comments or empty, as servers send them to keep a connection open. */
export function areComments(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] !== COLON) {
      if (bytes[at] !== LF && bytes[at] !== CR) return false;
      continue;
    }
    at = bytes.indexOf(LF, at);
    if (at < 0) return true;
  }
  return true;
}
