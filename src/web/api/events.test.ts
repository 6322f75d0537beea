import { expect, test } from "vitest";
import { eventsOf } from "./events.js";

test.each([
  ["a line feed", "\n"],
  ["a carriage return and a line feed", "\r\n"],
])("events whose lines end with %s are read, however the stream is cut", async (_, lineEnd) => {
  const lines = [": still there", "", 'data: {"a":1}', "", 'data: {"a":2}', "", "data: [DONE]", "", ""];
  const bytes = new TextEncoder().encode(lines.join(lineEnd));
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const events = eventsOf(body);
    const seen: unknown[] = [];
    let next = await events.next();
    for (; next.done !== true; next = await events.next()) seen.push(next.value);
    expect([seen, next.value]).toEqual([[{ a: 1 }, { a: 2 }], true]);
  }
});
