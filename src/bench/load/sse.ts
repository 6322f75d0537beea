/** Reads server-sent events from bytes split at any place. Lines end with LF or CRLF. */
import { StringDecoder } from "node:string_decoder";

export class SseReader {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #data = "";

  /** @returns the `data` of every event that these bytes complete */
  push(bytes: Buffer): string[] {
    const events: string[] = [];
    const text = this.#rest + this.#decoder.write(bytes);
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      this.#line(text.slice(start, end > start && text[end - 1] === "\r" ? end - 1 : end), events);
      start = end + 1;
    }
    this.#rest = text.slice(start);
    return events;
  }

  #line(line: string, events: string[]): void {
    if (line.startsWith("data:")) {
      const data = line.slice(line[5] === " " ? 6 : 5);
      this.#data = this.#data === "" ? data : `${this.#data}\n${data}`;
    } else if (line === "" && this.#data !== "") {
      events.push(this.#data);
      this.#data = "";
    }
  }
}
