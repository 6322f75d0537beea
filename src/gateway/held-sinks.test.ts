import { expect, test } from "vitest";
import { BufferSink } from "./answer.js";
import { Cancellation } from "./cancellation.js";
import { BoundedSink, CopyingSink } from "./held-sinks.js";

const HEAD = { status: 200, headers: {}, isEventStream: true };

test("a bounded sink holds an answer up to its size, and cancels a longer one without holding it", () => {
  const cancellation = new Cancellation();
  const sink = new BoundedSink(4, cancellation);
  sink.begin(HEAD);
  sink.write(Buffer.from("abcd"));
  expect([sink.isTooLong, cancellation.isCancelled]).toEqual([false, false]);
  for (let i = 0; i < 3; i++) sink.write(Buffer.from("e"));
  expect([sink.isTooLong, cancellation.isCancelled, sink.numBytes]).toEqual([true, true, 4]);
});

test("a copy is whole only if the answer ended and is of a usual size; the reader gets all of it in any case", () => {
  for (const [maxBytes, expected] of [
    [4, "abcd"],
    [3, undefined],
  ] as const) {
    const reader = new BufferSink();
    const order: string[] = [];
    const copy = new CopyingSink(reader, maxBytes, () =>
      order.push(reader.answer() === undefined ? "before" : "after"),
    );
    copy.begin(HEAD);
    copy.write(Buffer.from("ab"));
    expect(copy.whole()).toBeUndefined();
    copy.end(Buffer.from("cd"));
    expect(copy.whole()?.body.toString()).toBe(expected);
    expect(copy.whole()?.marks.filter((_, i) => i % 2 === 0)).toEqual(expected === undefined ? undefined : [2, 4]);
    expect([reader.answer()?.body.toString(), order]).toEqual(["abcd", ["before"]]);
  }
});
