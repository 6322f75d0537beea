/** Owns a grammar thread: starts it with its first job, and ends it when it breaks or hangs. */
import { join } from "node:path";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { packageRoot } from "../../core/package-root.js";
import { jobAfter, MaskMemory, type MaskShape } from "./mask-memory.js";
import type { FromGrammarThread, GrammarThreadData, ToGrammarThread } from "./messages.js";

/** The compiled file: unlike the tests, a thread cannot run TypeScript sources. */
const THREAD = "dist/src/engine/constraint/grammar-thread.js";

/** Extra time for the first job: reading a model's vocabulary takes seconds on a slow machine. */
const START_TIMEOUT_MS = 60_000;

/** A gap between checks longer than this means that the process was suspended, so the thread had no time to work. */
const LONGEST_LOOK_MS = 1000;

/** The thread has ended, and its grammars are lost. */
export interface LostThread {
  /** Request whose job ended the thread; 0: none. */
  readonly requestId: number;
  /** The thread had done some work, so starting another is worth a try. */
  readonly hasWorked: boolean;
  readonly problem: string;
}

/** Events since the last check. */
interface GrammarNews {
  readonly messages: readonly FromGrammarThread[];
  readonly lost: LostThread | undefined;
}

export class GrammarService {
  #memory: MaskMemory | undefined;
  #worker: Worker | undefined;
  #port: MessagePort | undefined;
  #numSent = 0;
  /** The job seen last, the time of its first sight, and the time of the last check. */
  #job = 0;
  #jobMs = 0;
  #lookedAtMs = 0;

  /** @param timeoutMs time limit for compiling one grammar, and for the masks of one position */
  constructor(
    private readonly modelPath: string,
    private readonly shape: MaskShape,
    private readonly timeoutMs: number,
    /** A shared word that changes whenever there is an event. */
    private readonly wakeWord: Int32Array<SharedArrayBuffer>,
  ) {}

  /** A new memory after each `stop`: a thread that is being ended may still write to its own. */
  get memory(): MaskMemory {
    this.#memory ??= new MaskMemory(this.shape, this.wakeWord);
    return this.#memory;
  }

  get isStarted(): boolean {
    return this.#port !== undefined;
  }

  get isBusy(): boolean {
    return this.#worker !== undefined && this.memory.busy().requestId !== 0;
  }

  /** Lets the thread read the vocabulary before the first job. */
  warm(): void {
    if (this.#port === undefined) this.#start();
  }

  send(message: ToGrammarThread): void {
    this.warm();
    // The clock starts with the job: no check ran before.
    if (this.memory.busy().job === jobAfter(this.#numSent)) this.#lookedAtMs = performance.now();
    this.#numSent++;
    this.#port!.postMessage(message);
  }

  poll(): GrammarNews {
    const messages: FromGrammarThread[] = [];
    for (let mail = this.#receive(); mail !== undefined; mail = this.#receive()) messages.push(mail);
    const broken = messages.find((message) => message.kind === "failed" && message.isBroken);
    if (broken?.kind === "failed") {
      const { requestId, problem } = broken;
      this.stop();
      return { messages, lost: { requestId, hasWorked: requestId !== 0, problem } };
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
    this.#numSent = 0;
    this.#job = 0;
    this.#jobMs = 0;
    this.#memory = undefined;
  }

  #start(): void {
    const { port1, port2 } = new MessageChannel();
    const workerData: GrammarThreadData = {
      modelPath: this.modelPath,
      shape: this.shape,
      memory: this.memory.buffer,
      wakeWord: this.wakeWord,
      port: port2,
    };
    const worker = new Worker(join(packageRoot(), THREAD), { workerData, transferList: [port2] });
    // The end of the thread shows as a job that stands still: its own events are not delivered while the engine's loop
    // turns.
    worker.on("error", () => {});
    worker.unref();
    port1.unref();
    this.#worker = worker;
    this.#port = port1;
  }

  #receive(): FromGrammarThread | undefined {
    if (this.#port === undefined) return undefined;
    return receiveMessageOnPort(this.#port)?.message as FromGrammarThread | undefined;
  }

  /** Has the thread been at the same job for too long, or ended in it? */
  #stuck(): LostThread | undefined {
    if (this.#worker === undefined) return undefined;
    const { requestId, job } = this.memory.busy();
    const nowMs = performance.now();
    const sinceLookMs = Math.min(nowMs - this.#lookedAtMs, LONGEST_LOOK_MS);
    this.#lookedAtMs = nowMs;
    const hasWorked = job !== 0;
    if (job !== this.#job || job === jobAfter(this.#numSent)) {
      this.#job = job;
      this.#jobMs = 0;
      return undefined;
    }
    this.#jobMs += sinceLookMs;
    const timeoutMs = hasWorked ? this.timeoutMs : Math.max(this.timeoutMs, START_TIMEOUT_MS);
    if (this.#jobMs < timeoutMs) return undefined;
    const problem = `expected an answer of the grammar engine within ${timeoutMs} ms, got none`;
    return { requestId, hasWorked, problem };
  }
}
