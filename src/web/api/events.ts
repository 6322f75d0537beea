/** Server-sent events of OpenAI's streams. */
import { errorOf } from "./client.js";

/**
 * The data of each event, parsed.
 *
 * @returns whether the stream sent its end marker
 */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<unknown, boolean> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let pending = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    // Some servers end lines with a carriage return and a line feed.
    const parts = (pending + value).split(/\r?\n\r?\n/);
    pending = parts.pop()!;
    for (const part of parts) {
      // Comments keep a silent stream alive.
      if (!part.startsWith("data:")) continue;
      const data = part.slice("data:".length).trim();
      if (data === "[DONE]") return true;
      const event: unknown = JSON.parse(data);
      if (typeof event === "object" && event !== null && "error" in event) throw errorOf(event, 0);
      yield event;
    }
  }
}
