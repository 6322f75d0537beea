/**
 * Turns of large bodies in their one thread: the order, cancellations, refusals, and the state after the thread's end.
 */
import { Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { holdBodies, largeBody } from "../../test/helpers/held-bodies.js";
import { BodyQueue, MAX_WAITING_BYTES } from "./body-queue.js";

afterEach(() => vi.restoreAllMocks());

const bytesOf = (value: object): Uint8Array => Uint8Array.from(Buffer.from(JSON.stringify(value)));

/** All arrive at once, in this order; a body's tenant is the first letter of its name. */
function send(queue: BodyQueue, names: readonly string[], bytes = (name: string) => bytesOf(largeBody(name))) {
  const ended: string[] = [];
  const leave = new Map<string, () => void>();
  const all = names.map((name) => {
    const onWait = (call: () => void) => leave.set(name, call);
    return queue.read(bytes(name), { tenant: name.slice(0, 1), onWait }).then(
      () => ended.push(name),
      ({ code }) => ended.push(`${name}: ${code}`),
    );
  });
  return { ended, leave, whenEnded: Promise.all(all) };
}

const several = (tenant: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${tenant}${i}`);

test("a tenant's body waits for one of another's ten, and turns go round from then on", async () => {
  const { ended, whenEnded } = send(new BodyQueue(), [...several("a", 10), "b0", "c0", "b1"]);
  await whenEnded;
  expect(ended.slice(0, 6)).toEqual(["a0", "b0", "c0", "a1", "b1", "a2"]);
  expect(ended).toHaveLength(13);
});

test("turns are shared out by bytes: several small bodies go for one large one", async () => {
  const bytes = (name: string) => bytesOf({ text: "x".repeat(name.startsWith("a") ? 1_000_000 : 300_000) });
  const { ended, whenEnded } = send(new BodyQueue(), [...several("a", 3), ...several("b", 6)], bytes);
  await whenEnded;
  expect(ended).toEqual(["a0", "b0", "b1", "b2", "b3", "a1", "b4", "b5", "a2"]);
});

test("who has many bytes waiting is told to come back, and nobody else", async () => {
  // The thread refuses this body as soon as it has scanned it.
  const large = Uint8Array.from(Buffer.from("[".repeat(8 * 1024 * 1024 + 1))).subarray(1);
  const numFit = MAX_WAITING_BYTES / large.length;
  // The first body is in the thread already, so it does not wait.
  const names = [...several("a", numFit + 2), "b0"];
  const queue = new BodyQueue();
  const { ended, whenEnded } = send(queue, names, () => large);
  const onWait = vi.fn();
  await expect(queue.read(large, { tenant: "a", onWait })).rejects.toMatchObject({
    code: "body_queue",
    status: 429,
    retryAfterSeconds: 5,
    message: expect.stringContaining(`expected at most ${MAX_WAITING_BYTES} bytes`),
  });
  expect(onWait).not.toHaveBeenCalled();
  await whenEnded;
  const refused = ended.filter((end) => end.endsWith("body_queue"));
  expect(refused).toEqual([`a${numFit + 1}: body_queue`]);
  expect(ended.filter((end) => end.endsWith("invalid_json"))).toHaveLength(names.length - 1);
});

test("a body is taken however large it is, where none of its tenant's waits", async () => {
  const bytes = (name: string) => (name === "b0" ? new Uint8Array(MAX_WAITING_BYTES + 1) : bytesOf(largeBody(name)));
  const { ended, whenEnded } = send(new BodyQueue(), ["a0", "b0"], bytes);
  await whenEnded;
  expect(ended).toEqual(["a0", "b0"]);
});

test("a body whose client leaves is never read; one that is being read is given up, and then the next one's turn comes", async () => {
  const held = holdBodies();
  const { ended, leave, whenEnded } = send(new BodyQueue(), ["a0", "a1", "a2"]);
  leave.get("a0")!();
  leave.get("a1")!();
  await vi.waitFor(() => expect(ended).toEqual(["a0: client_closed", "a1: client_closed"]), { timeout: 20_000 });
  held.letGo();
  await whenEnded;
  expect(ended.at(-1)).toBe("a2");
  expect(held.names).toEqual(["a0", "a2"]);
});

test("a thread that ends fails the body that it was at; another thread reads the others", async () => {
  vi.spyOn(Worker.prototype, "postMessage").mockImplementationOnce(function (this: Worker) {
    void this.terminate();
  });
  const { ended, whenEnded } = send(new BodyQueue(), ["a0", "a1", "b0"]);
  await whenEnded;
  expect(ended).toEqual(["a0: internal_error", "b0", "a1"]);
});

test("a thread that cannot start fails the body that it was for; the next body tries again", async () => {
  vi.spyOn(Worker.prototype, "ref").mockImplementationOnce(() => {
    throw new Error("no thread left");
  });
  const { ended, whenEnded } = send(new BodyQueue(), ["a0", "a1", "b0"]);
  await whenEnded;
  expect(ended).toEqual(["a0: internal_error", "a1", "b0"]);
});
