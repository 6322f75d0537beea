/**
 * Reads server-sent events out of the pieces of a stream, however it is cut. An event is bounded; comments and unknown
 * fields are skipped.
 */
import { MillraceError } from "../../../core/errors.js";
import { ByteList } from "./byte-list.js";

export interface SentEvent {
  /** Empty if the event has no name. */
  readonly name: string;
  readonly data: string;
}

/** An event holds a call's whole arguments with some providers. */
export const MAX_EVENT_BYTES = 4 * 2 ** 20;
const LF = 0x0a;
const CR = 0x0d;

export class EventReader {
  /** The beginning of a line. */
  readonly #held = new ByteList();
  /** Bytes of the event so far. */
  #numBytes = 0;
  #endedWithCr = false;
  #name = "";
  #data: string[] = [];

  /** @param take gets each event in turn, even if the bytes after it are unreadable */
  push(chunk: Buffer, take: (event: SentEvent) => void): void {
    let start = 0;
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]!;
      if (byte !== LF && byte !== CR) {
        this.#endedWithCr = false;
        continue;
      }
      // The line feed of a CRLF ends no second line.
      const isSecondHalf = byte === LF && this.#endedWithCr;
      this.#endedWithCr = byte === CR;
      if (!isSecondHalf) this.#line(this.#take(chunk.subarray(start, i)), take);
      start = i + 1;
    }
    const rest = chunk.subarray(start);
    if (rest.length > 0) {
      this.#count(rest.length);
      this.#held.append(rest);
    }
  }

  #take(end: Buffer): string {
    this.#count(end.length + 1);
    if (this.#held.length === 0) return end.toString("utf8");
    this.#held.append(end);
    const line = this.#held.view().toString("utf8");
    this.#held.drop(this.#held.length);
    return line;
  }

  #count(numBytes: number): void {
    this.#numBytes += numBytes;
    if (this.#numBytes <= MAX_EVENT_BYTES) return;
    this.#held.clear();
    this.#data = [];
    throw new MillraceError(
      "upstream_failed",
      `expected events of at most ${MAX_EVENT_BYTES} bytes in the provider's answer, got more`,
    );
  }

  #line(line: string, take: (event: SentEvent) => void): void {
    if (line === "") {
      const event = { name: this.#name, data: this.#data };
      this.#name = "";
      this.#data = [];
      this.#numBytes = 0;
      if (event.data.length > 0) take({ name: event.name, data: event.data.join("\n") });
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    // A stream of comments alone must not count as one event without end.
    else if (field === "" && this.#data.length === 0) this.#numBytes = 0;
  }
}
