import { describe, expect, test } from "vitest";
import { MillraceError } from "../core/errors.js";
import { type AnswerHead, type AnswerSink, BufferSink } from "./answer.js";
import { Cancellation } from "./cancellation.js";
import type { Ending } from "./pipeline.js";
import { SharedRun, type SharedRunOptions } from "./shared-run.js";

const HEAD: AnswerHead = { status: 200, headers: { "content-type": "text/event-stream" }, isEventStream: true };
const limits: SharedRunOptions = { maxBytes: 1000, lingerMs: 0 };
const failure = new MillraceError("upstream_failed", "expected an answer, got none");
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A run that the test drives by hand. */
async function start(options: Partial<SharedRunOptions> = {}) {
  let sink: AnswerSink = new BufferSink();
  let numClosed = 0;
  const ending = withResolvers<Ending>();
  const run = new SharedRun(
    (into, cancellation) => {
      sink = into;
      cancellation.onCancel((error) => {
        if (error !== undefined) sink.breakOff(error);
        ending.resolve({ kind: "cancelled" });
      });
      return ending.promise;
    },
    { ...limits, ...options },
    () => numClosed++,
  );
  await turn();
  return {
    run,
    begin: (status = 200) => sink.begin({ ...HEAD, status }),
    write: (text: string) => sink.write(Buffer.from(text)),
    onDrain: (listener: () => void) => sink.onDrain(listener),
    end: (last?: string) => {
      sink.end(last === undefined ? undefined : Buffer.from(last));
      ending.resolve({ kind: "answered", status: 200 });
    },
    breakOff: () => {
      sink.breakOff(failure);
      ending.resolve({ kind: "broken", status: 200, error: failure });
    },
    reject: (thrown: unknown) => ending.reject(thrown),
    numClosed: () => numClosed,
  };
}

function withResolvers<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (thrown: unknown) => void = () => {};
  const promise = new Promise<T>((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
}

/** A client that reads on the test's command. */
class SlowSink extends BufferSink {
  isBlocked = false;
  #onDrain = () => {};

  override write(bytes: Buffer): boolean {
    super.write(bytes);
    return !this.isBlocked;
  }

  override onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  drain(): void {
    this.isBlocked = false;
    this.#onDrain();
  }
}

const textOf = (sink: BufferSink) => sink.answer()?.body.toString();

describe("a shared run", () => {
  test("every reader gets the whole answer, whenever it comes", async () => {
    const { run, begin, write, end, numClosed } = await start();
    const sinks = Array.from({ length: 4 }, () => new BufferSink());
    const read = (sink: BufferSink, isOwner = false) => run.read(sink, new Cancellation(), isOwner);
    const endings = [read(sinks[0]!, true), read(sinks[1]!)];
    begin();
    write("a");
    endings.push(read(sinks[2]!));
    write("b");
    endings.push(read(sinks[3]!));
    end("c");
    expect(await Promise.all(endings)).toEqual(Array(4).fill({ kind: "answered", status: 200 }));
    expect(sinks.map(textOf)).toEqual(Array(4).fill("abc"));
    const { answer } = await run.result;
    expect(answer?.body.toString()).toBe("abc");
    expect(answer?.marks.filter((_, i) => i % 2 === 0)).toEqual([1, 2, 3]);
    expect([run.isJoinable, numClosed()]).toEqual([false, 1]);
  });

  test("the owner's client may leave: the run goes on for the others, and the owner's request ends with the run", async () => {
    const { run, begin, write, end } = await start();
    const owner = new Cancellation();
    const sink = new BufferSink();
    let owned: Ending | undefined;
    const first = run.read(new BufferSink(), owner, true).then((ending) => {
      owned = ending;
    });
    const second = run.read(sink, new Cancellation());
    begin();
    write("a");
    owner.cancel();
    await turn();
    expect([owned, run.cancellation.isCancelled]).toEqual([undefined, false]);
    end("b");
    await Promise.all([first, second]);
    expect([owned, textOf(sink)]).toEqual([{ kind: "cancelled" }, "ab"]);
  });

  test("the run is cancelled with its last reader, or a while after it", async () => {
    for (const lingerMs of [0, 20]) {
      const { run, begin } = await start({ lingerMs });
      const clients = [new Cancellation(), new Cancellation()];
      const endings = clients.map((client, i) => run.read(new BufferSink(), client, i === 0));
      begin();
      clients[0]!.cancel();
      expect(run.cancellation.isCancelled).toBe(false);
      clients[1]!.cancel();
      expect([run.cancellation.isCancelled, run.isJoinable]).toEqual([lingerMs === 0, lingerMs !== 0]);
      expect(await Promise.all(endings)).toEqual([{ kind: "cancelled" }, { kind: "cancelled" }]);
      expect(run.cancellation.isCancelled).toBe(true);
      expect((await run.result).answer).toBeUndefined();
    }
  });

  test("a reader that comes while the run lingers keeps it alive", async () => {
    const { run, begin, write, end } = await start({ lingerMs: 5 });
    const client = new Cancellation();
    const owner = run.read(new BufferSink(), client, true);
    begin();
    write("a");
    client.cancel();
    const sink = new BufferSink();
    const second = run.read(sink, new Cancellation());
    await new Promise((resolve) => setTimeout(resolve, 20));
    end("b");
    expect(await second).toEqual({ kind: "answered", status: 200 });
    expect([textOf(sink), await owner]).toEqual(["ab", { kind: "cancelled" }]);
  });

  test("what ends the owner's request for a reason ends the run: readers without a byte may try themselves", async () => {
    for (const hasBegun of [false, true]) {
      const { run, begin, write } = await start();
      const owner = new Cancellation();
      const sinks = [new BufferSink(), new BufferSink()];
      const first = run.read(sinks[0]!, owner, true);
      const second = run.read(sinks[1]!, new Cancellation());
      if (hasBegun) {
        begin();
        write("a");
      }
      owner.cancel(failure);
      expect(await first).toEqual({ kind: "cancelled" });
      expect(await second).toEqual(hasBegun ? { kind: "cancelled" } : undefined);
      expect(sinks.map((sink) => sink.answer()?.error)).toEqual(hasBegun ? [failure, failure] : [undefined, undefined]);
    }
  });

  test("a failure is the owner's alone", async () => {
    const { run, reject } = await start();
    const first = run.read(new BufferSink(), new Cancellation(), true);
    const second = run.read(new BufferSink(), new Cancellation());
    reject(failure);
    await expect(first).rejects.toBe(failure);
    expect(await second).toBeUndefined();
  });

  test("so are answers that say something about the moment; others are everybody's", async () => {
    for (const [status, isShared] of [
      [400, true],
      [404, true],
      [401, false],
      [429, false],
      [500, false],
      [503, false],
    ] as const) {
      const { run, begin, end } = await start();
      const sinks = [new BufferSink(), new BufferSink()];
      const first = run.read(sinks[0]!, new Cancellation(), true);
      const second = run.read(sinks[1]!, new Cancellation());
      begin(status);
      end("no");
      expect([status, textOf(sinks[0]!), (await first)?.kind]).toEqual([status, "no", "answered"]);
      expect([status, (await second)?.kind]).toEqual([status, isShared ? "answered" : undefined]);
    }
  });

  test("an answer that breaks off breaks off for all, and is not kept", async () => {
    const { run, begin, write, breakOff } = await start();
    const sinks = [new BufferSink(), new BufferSink()];
    const endings = sinks.map((sink, i) => run.read(sink, new Cancellation(), i === 0));
    begin();
    write("a");
    breakOff();
    expect((await Promise.all(endings)).map((ending) => ending?.kind)).toEqual(["broken", "broken"]);
    expect(sinks.map((sink) => sink.answer()?.error)).toEqual([failure, failure]);
    expect((await run.result).answer).toBeUndefined();
  });

  test("the first reader sets the pace, the others do not hold it up", async () => {
    const { run, begin, write, onDrain, end } = await start();
    const [first, second] = [new SlowSink(), new SlowSink()];
    const owner = new Cancellation();
    const endings = [run.read(first, owner, true), run.read(second, new Cancellation())];
    begin();
    second.isBlocked = true;
    expect(write("a")).toBe(true);
    first.isBlocked = true;
    expect(write("b")).toBe(false);
    let numDrained = 0;
    onDrain(() => numDrained++);
    expect(numDrained).toBe(0);
    first.drain();
    expect(numDrained).toBe(1);
    // The second reader is the first when the owner has left.
    owner.cancel();
    expect(write("c")).toBe(false);
    second.drain();
    end();
    await Promise.all(endings);
    expect(textOf(second)).toBe("abc");
  });

  test("beyond its bound an answer is not kept or joined, and who is too far behind is dropped", async () => {
    const { run, begin, write, end, numClosed } = await start({ maxBytes: 10 });
    const [first, second, third] = [new BufferSink(), new SlowSink(), new SlowSink()];
    const endings = [first, second, third].map((sink, i) => run.read(sink, new Cancellation(), i === 0));
    begin();
    second.isBlocked = true;
    for (let i = 0; i < 6; i++) write("ab");
    expect([run.isJoinable, numClosed()]).toEqual([false, 1]);
    for (let i = 0; i < 4; i++) write("ab");
    expect(second.answer()?.error?.code).toBe("client_closed");
    end();
    await Promise.all(endings);
    expect([textOf(first), textOf(third)]).toEqual(["ab".repeat(10), "ab".repeat(10)]);
    expect((await run.result).answer).toBeUndefined();
  });

  test("a run that stays open can be read after its end", async () => {
    const { run, begin, end } = await start({ staysOpen: true });
    const first = run.read(new BufferSink(), new Cancellation(), true);
    begin();
    end("a");
    await first;
    const sink = new BufferSink();
    expect(run.isJoinable).toBe(true);
    expect(await run.read(sink, new Cancellation())).toEqual({ kind: "answered", status: 200 });
    expect(textOf(sink)).toBe("a");
    run.close();
    expect(run.isJoinable).toBe(false);
  });
});
