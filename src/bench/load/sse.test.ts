import fc from "fast-check";
import { expect, test } from "vitest";
import { SseReader } from "./sse.js";

const TEXT =
  'event: x\r\ndata: {"a":"é"}\r\n\r\n: comment\ndata:one\ndata: two 🌊\n\nid: 3\n\ndata: [DONE]\n\ndata: unfinished';

test("events do not depend on where their bytes are split, even within characters", () => {
  const bytes = Buffer.from(TEXT);
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(bytes.length), { maxLength: 12 }), (places) => {
      const ends = [...places, bytes.length].sort((a, b) => a - b);
      const reader = new SseReader();
      const events = ends.flatMap((end, i) => reader.push(bytes.subarray(ends[i - 1] ?? 0, end)));
      expect(events).toEqual(['{"a":"é"}', "one\ntwo 🌊", "[DONE]"]);
    }),
  );
});
