import fc from "fast-check";
import { expect, test } from "vitest";
import { areComments, WholeEvents } from "./whole-events.js";

test("a chunk of complete events is passed on unchanged", () => {
  const chunk = Buffer.from("data: 1\n\ndata: 2\n\n");
  expect(new WholeEvents().push(chunk)).toBe(chunk);
});

test("for any chunks of a stream, only complete events are passed on, and in the end all bytes", () => {
  const lineEnd = fc.constantFrom("\n", "\r\n");
  const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "é", ":", " "), maxLength: 20 }), { maxLength: 12 });
  fc.assert(
    fc.property(texts, lineEnd, fc.array(fc.nat(30)), (lines, end, cuts) => {
      const stream = Buffer.from(lines.map((line) => `data: ${line}${end}${end}`).join(""));
      const events = new WholeEvents();
      let out = Buffer.alloc(0);
      let start = 0;
      for (const cut of [...cuts, stream.length]) {
        out = Buffer.concat([out, events.push(stream.subarray(start, start + cut))]);
        start = Math.min(stream.length, start + cut);
        expect(out.length === 0 || out.toString().endsWith(end + end)).toBe(true);
        // No whole event is held back.
        const wholes = stream.toString("latin1", 0, start).split(`${end}${end}`).length - 1;
        expect(out.toString("latin1").split(`${end}${end}`).length - 1).toBe(wholes);
      }
      expect(Buffer.concat([out, events.flush()])).toEqual(stream);
    }),
  );
});

test("the rest is passed on at the end, and an endless event is not held for ever", () => {
  const events = new WholeEvents();
  expect(events.push(Buffer.from("data: 1\n\ndata: ")).toString()).toBe("data: 1\n\n");
  expect(events.flush().toString()).toBe("data: ");
  let numOut = 0;
  for (let i = 0; i < 100; i++) numOut += events.push(Buffer.alloc(10_000, 97)).length;
  expect(numOut).toBeGreaterThan(700_000);
});

test("an incomplete event of up to 256 KiB is held, a longer one is passed on in pieces", () => {
  const events = new WholeEvents();
  expect(events.push(Buffer.alloc(256 * 1024, 97))).toHaveLength(0);
  expect(events.push(Buffer.from("a"))).toHaveLength(256 * 1024 + 1);
  expect(events.flush()).toHaveLength(0);
});

test.each([
  [": keep-alive\n\n", true],
  ["\r\n: a\r\n\r\n:b\n\n", true],
  [": cut", true],
  ["", true],
  [": a\ndata: {}\n\n", false],
  ["event: ping\n\n", false],
])("%j is comments alone: %s", (text, expected) => {
  expect(areComments(Buffer.from(text))).toBe(expected);
});
