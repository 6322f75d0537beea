/**
 * Passes on an answer of /v1/responses, fills in the fields that only the gateway knows (`previous_response_id`,
 * `store`), and stores the answer when it is complete. An answer that breaks off is not stored.
 */
import type { JsonObject } from "../../core/json-body.js";
import { Pieces } from "../../core/pieces.js";
import type { OpenTurn } from "../../core/response-state.js";

/** A longer answer passes unchanged and is not stored. */
const MAX_WHOLE_BYTES = 32 * 1024 * 1024;

/** Events that contain the response so far; the last one contains all of it. */
const WITH_RESPONSE = /^event: ?response\.(?:created|queued|in_progress|completed|incomplete|failed)\r?$/m;
const DATA_LINE = /^(data: ?)([^\r\n]*)/m;
/** States in which an answer is stored. */
const WHOLE: readonly unknown[] = ["completed", "incomplete"];

export class ResponseKeeper {
  readonly #pieces = new Pieces();
  #isTooLong = false;

  constructor(
    private readonly turn: OpenTurn,
    private readonly isStream: boolean,
  ) {}

  /** @param bytes whole events of a stream, or any part of another answer @returns the bytes to send now */
  push(bytes: Buffer): Buffer {
    if (this.isStream) return this.#editEvents(bytes);
    if (this.#isTooLong) return bytes;
    this.#pieces.push(bytes);
    if (this.#pieces.numBytes <= MAX_WHOLE_BYTES) return NOTHING;
    this.#isTooLong = true;
    return this.#pieces.take();
  }

  /** Call it when the answer is complete. @returns the rest of the answer */
  end(): Buffer {
    const bytes = this.#pieces.take();
    const response = bytes.length === 0 ? undefined : parse(bytes.toString());
    if (response === undefined) return bytes;
    const isWhole = WHOLE.includes(response.status);
    return Buffer.from(JSON.stringify(isWhole ? this.#finished(response) : this.#shown(response, false)));
  }

  #shown(response: JsonObject, store: boolean): JsonObject {
    return { ...response, previous_response_id: this.turn.previousId, store };
  }

  #finished(response: JsonObject): JsonObject {
    return this.turn.finish({ ...response, previous_response_id: this.turn.previousId });
  }

  #editEvents(bytes: Buffer): Buffer {
    const text = bytes.toString();
    if (!WITH_RESPONSE.test(text)) return bytes;
    // An empty line always ends an event.
    return Buffer.from(
      text
        .split(/(?<=\n\r?\n)/)
        .map((event) => (WITH_RESPONSE.test(event) ? this.#editEvent(event) : event))
        .join(""),
    );
  }

  #editEvent(event: string): string {
    const line = DATA_LINE.exec(event);
    if (line === null) return event;
    const [, field = "", json = ""] = line;
    const begin = line.index + field.length;
    const data = parse(json);
    const response = data?.response;
    if (data === undefined || typeof response !== "object" || response === null) return event;
    const state = String(data.type).replace("response.", "");
    const shown = WHOLE.includes(state)
      ? this.#finished(response as JsonObject)
      : this.#shown(response as JsonObject, state !== "failed" && this.turn.isToBeStored);
    return event.slice(0, begin) + JSON.stringify({ ...data, response: shown }) + event.slice(begin + json.length);
  }
}

const NOTHING = Buffer.alloc(0);

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
