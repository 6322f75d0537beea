/** Owns the grammar thread: starts it with the first constrained request, and replaces it when it breaks or hangs. */
import { join } from "node:path";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { packageRoot } from "../../core/package-root.js";
import { MaskMemory, type MaskShape } from "./mask-memory.js";
import type { FromGrammarThread, GrammarThreadData, ToGrammarThread } from "./messages.js";

/** Compiled: tests run the rest from source, which a thread of its own could not. */
const THREAD = "dist/src/engine/constraint/grammar-thread.js";

/** The thread is gone with everything it knew: whose work ended it (0: nobody's), and how. */
export interface LostThread {
  readonly requestId: number;
  readonly problem: string;
}

/** What happened since the last look. */
export interface GrammarNews {
  readonly messages: readonly FromGrammarThread[];
  readonly lost: LostThread | undefined;
}

export class GrammarService {
  #memory: MaskMemory | undefined;
  #worker: Worker | undefined;
  #port: MessagePort | undefined;
  #job = -1;
  #jobSinceMs = 0;
  #exitCode: number | undefined;

  /** @param timeoutMs the longest that one grammar or mask may take */
  constructor(
    private readonly modelPath: string,
    private readonly shape: MaskShape,
    private readonly timeoutMs: number,
  ) {}

  /** Another after each `stop`: a thread that is being ended may still write to its own. */
  get memory(): MaskMemory {
    this.#memory ??= new MaskMemory(this.shape);
    return this.#memory;
  }

  get isStarted(): boolean {
    return this.#port !== undefined;
  }

  send(message: ToGrammarThread): void {
    if (this.#port === undefined) this.#start();
    this.#port!.postMessage(message);
  }

  look(): GrammarNews {
    const messages: FromGrammarThread[] = [];
    for (let mail = this.#receive(); mail !== undefined; mail = this.#receive()) messages.push(mail);
    const broken = messages.find((message) => message.kind === "failed" && message.isBroken);
    if (broken?.kind === "failed") {
      this.stop();
      return { messages, lost: { requestId: broken.requestId, problem: broken.problem } };
    }
    const stuck = this.#stuck();
    if (stuck !== undefined) this.stop();
    return { messages, lost: stuck };
  }

  stop(): void {
    this.#port?.close();
    void this.#worker?.terminate();
    this.#port = undefined;
    this.#worker = undefined;
    this.#job = -1;
    this.#exitCode = undefined;
    this.#memory = undefined;
  }

  #start(): void {
    const { port1, port2 } = new MessageChannel();
    const workerData: GrammarThreadData = {
      modelPath: this.modelPath,
      shape: this.shape,
      memory: this.memory.buffer,
      port: port2,
    };
    const worker = new Worker(join(packageRoot(), THREAD), { workerData, transferList: [port2] });
    worker.on("error", () => {});
    worker.once("exit", (code) => {
      if (this.#worker === worker) this.#exitCode = code;
    });
    worker.unref();
    port1.unref();
    this.#worker = worker;
    this.#port = port1;
  }

  #receive(): FromGrammarThread | undefined {
    if (this.#port === undefined) return undefined;
    return receiveMessageOnPort(this.#port)?.message as FromGrammarThread | undefined;
  }

  /** The thread has been at the same piece of work for too long, or has ended. */
  #stuck(): LostThread | undefined {
    const { requestId, job } = this.memory.busy();
    if (this.#exitCode !== undefined) {
      return { requestId, problem: `the grammar thread ended with code ${this.#exitCode}` };
    }
    const nowMs = performance.now();
    if (requestId === 0 || job !== this.#job) {
      this.#job = job;
      this.#jobSinceMs = nowMs;
      return undefined;
    }
    if (nowMs - this.#jobSinceMs < this.timeoutMs) return undefined;
    return { requestId, problem: `expected an answer of the grammar engine within ${this.timeoutMs} ms, got none` };
  }
}
