/** Holds the first large body in the thread that reads them, so that a test says what waits meanwhile. */
import { Worker } from "node:worker_threads";
import { vi } from "vitest";
import { BodyQueue } from "../../src/core/body-queue.js";
import type { ToBodyThread } from "../../src/core/body-thread.js";

interface HeldBodies {
  /** How many large bodies have come. */
  readonly numCome: () => number;
  /** The names of those that went to the thread, in order. */
  readonly names: readonly string[];
  letGo(): void;
}

/** A body that goes through the thread. */
export const largeBody = (name: string): object => ({ model: "m", prompt: `name ${name} ${"x".repeat(300_000)}` });

/** Until `vi.restoreAllMocks`. Other threads must get no messages meanwhile. */
export function holdBodies(): HeldBodies {
  const { postMessage } = Worker.prototype;
  const names: string[] = [];
  let isHeld = true;
  let send = () => {};
  const read = vi.spyOn(BodyQueue.prototype, "read");
  vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (this: Worker, message, moved) {
    const { bytes } = message as ToBodyThread;
    names.push(/name (\w+)/.exec(Buffer.from(bytes).toString("latin1"))?.[1] ?? "");
    send = () => postMessage.call(this, message, moved as ArrayBuffer[]);
    if (!isHeld) send();
  });
  const letGo = () => {
    isHeld = false;
    send();
  };
  return { numCome: () => read.mock.calls.length, names, letGo };
}
